/* SPDX-License-Identifier: Apache-2.0 */
#include "mem.h"

#include <sys/mman.h>

#define MEM_HUGE_BYTES (2u << 20)

void *dsr_mem_map(size_t bytes)
{
	void *memory;

	if (bytes == 0)
		return NULL;
	/* NORESERVE: the tables are sized for the entry table's worst case, which few reach. */
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void *dsr_mem_map_huge(size_t bytes)
{
	void *memory = dsr_mem_map(bytes);

	/* Each lookup touches another page: in small ones most of its time goes into finding them.
	 */
	if (memory != NULL && bytes >= MEM_HUGE_BYTES)
		(void)madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

void dsr_mem_unmap(void *memory, size_t bytes)
{
	if (memory != NULL)
		(void)munmap(memory, bytes);
}
