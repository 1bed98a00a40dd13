/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

uint32_t dsr_runs_make(const struct dsr_runs_place *place, const struct dsr_ref *refs,
                       const int32_t *errs, uint32_t first, uint32_t count,
                       struct dsr_copy *ret_copies)
{
	bool is_dense = place->slot_stride == place->slot_bytes;
	uint32_t runs = 0, last = 0; /* position of the last block taken, when runs > 0 */

	for (uint32_t i = first; i < first + count; i++) {
		uint8_t *staging = place->staging + place->slot_bytes * i;
		uint8_t *slot = place->lane + place->slot_stride * refs[i].slot;

		if (errs[i] != 0)
			continue;
		if (is_dense && runs > 0 && last + 1 == i &&
		    (uint64_t)refs[last].slot + 1 == refs[i].slot) {
			ret_copies[runs - 1].bytes += place->slot_bytes;
		} else {
			ret_copies[runs].dst = place->to_staging ? staging : slot;
			ret_copies[runs].src = place->to_staging ? slot : staging;
			ret_copies[runs].bytes = place->slot_bytes;
			runs++;
		}
		last = i;
	}
	return runs;
}
