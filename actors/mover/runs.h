/* SPDX-License-Identifier: Apache-2.0 */
/* Coalescing: blocks that lie one after another in staging and in L1 become one copy. */
#ifndef DSR_MOVER_RUNS_H
#define DSR_MOVER_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "key.h"

/* Where the two ends of a copy lie. Payloads stand in staging without gaps, in L1 at slot_stride.
 */
struct dsr_runs_place {
	uint8_t *staging; /* of position 0 */
	uint8_t *lane;    /* of slot 0 */
	uint64_t slot_bytes;
	uint64_t slot_stride;
	bool to_staging; /* else to L1 */
};

/* Copies for those blocks of positions [first, first + count) whose err is 0; refs and errs are
 * indexed by position. Neighbours in both places are joined, which takes slots without padding
 * (slot_stride == slot_bytes). ret_copies has room for `count`. Returns how many copies there are.
 */
uint32_t dsr_runs_make(const struct dsr_runs_place *place, const struct dsr_ref *refs,
                       const int32_t *errs, uint32_t first, uint32_t count,
                       struct dsr_copy *ret_copies);

#endif
