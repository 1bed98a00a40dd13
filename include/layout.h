/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that two processes map: the control segment and the L1 pool.
 *
 * control segment (memfd, held by the supervisor, created by the first scheduler)
 *   header | directory | actor rows | last words | scheduler state | entry table
 *          | counters pages | record ring
 * L1 pool (memfd, held by the supervisor, one per pool epoch, created by the scheduler at the first
 * REGISTER)
 *   header | slot sequences | digests of lane 0..L-1 | lane 0 | lane 1 | ...
 *
 * Rules: fixed-width integers, named padding, offsets and never pointers, one writer a word
 * (`W:` names it). Each array starts on a page; words of different writers never share a
 * cache line. Sizes and offsets are asserted in shm/layout_check.c and dumped into
 * tests/golden/layout.txt. A change moves the version, the dump and docs/shm-layout.md together.
 */
#ifndef DSR_LAYOUT_H
#define DSR_LAYOUT_H

#include <stdint.h>

#include "key.h"

#define DSR_CONTROL_MAGIC UINT64_C(0x4c52544352534144) /* "DASRCTRL" */
#define DSR_POOL_MAGIC UINT64_C(0x4c4f4f5052534144)    /* "DASRPOOL" */

#define DSR_ACTOR_ROWS 64    /* scheduler, metrics, then a load and a store row per device */
#define DSR_ENGINE_PAGES 191 /* counters pages of engine processes */
#define DSR_COUNTER_PAGES (DSR_ACTOR_ROWS + DSR_ENGINE_PAGES + 1)
#define DSR_RETIRED_PAGE (DSR_COUNTER_PAGES - 1) /* sums of engine processes that are gone */
#define DSR_COUNTERS_PER_PAGE 504
#define DSR_RECORDS 4096 /* finished loads and stores kept for daserctl requests */
#define DSR_ENTRY_NONE UINT32_MAX
#define DSR_SLOT_NONE UINT32_MAX
#define DSR_SLOT_ALIGN 4096
#define DSR_LANE_ALIGN (UINT64_C(2) << 20)

/* Generations and slot sequences: pool epoch in the high bits, a counter below; never restart. */
#define DSR_EPOCH_SHIFT 40

enum dsr_segment_state { DSR_SEGMENT_EMPTY = 0, DSR_SEGMENT_READY = 1 };

/* First bytes of both segments. The creator fills it and release-stores `state` last. */
struct dsr_segment_header {
	uint64_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t header_size;
	uint64_t feat_compat;   /* unknown bits may be ignored */
	uint64_t feat_incompat; /* unknown bits mean: do not touch */
	uint64_t total_size;
	uint64_t epoch;         /* control: CLOCK_REALTIME ns at creation; pool: pool epoch */
	_Atomic uint32_t state; /* enum dsr_segment_state; W: creator, last */
	uint32_t section_count;
	uint64_t sections_off; /* array of struct dsr_section */
	uint64_t reserved[8];
};

enum dsr_section_kind {
	DSR_SECTION_ACTORS = 1,
	DSR_SECTION_LAST_WORDS = 2,
	DSR_SECTION_SCHEDULER = 3,
	DSR_SECTION_ENTRIES = 4,
	DSR_SECTION_COUNTERS = 5,
	DSR_SECTION_RECORDS = 6,
	DSR_SECTION_RECORD_HEAD = 7,
	DSR_SECTION_SLOT_SEQS = 16,
	DSR_SECTION_DIGESTS = 17,
	DSR_SECTION_LANES = 18,
	DSR_SECTION_GEOMETRY = 19,
};

struct dsr_section {
	uint32_t kind;
	uint32_t reserved;
	uint64_t off;
	uint64_t count;
	uint64_t stride;
};

/* Roles and states: include/actors.def. */
#define DSR_DEVICE_NAME_MAX 64

/* One row per actor: the truth about who lives. The row's number is given by the broker and is
 * stable for (role, device); the role lock guards its single writer.
 * W: the actor that holds the role lock. R: all. */
struct dsr_actor_row {
	_Atomic uint64_t incarnation; /* CLOCK_BOOTTIME ns at start; 0 = never used */
	_Atomic uint32_t state;       /* enum dsr_actor_state */
	uint32_t role;                /* enum dsr_role */
	int32_t pid;
	uint32_t by_hand;              /* not started by the supervisor: never killed by it */
	uint64_t start_ticks;          /* field 22 of /proc/pid/stat: with pid, an identity */
	_Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, moved by the loop's timer */
	_Atomic uint64_t progress_ns;  /* moved when work advanced or none is waiting */
	_Atomic uint64_t peer_handles; /* handles of dead peers still open; 0 in good life */
	char device[DSR_DEVICE_NAME_MAX];
	uint64_t reserved[1];
};

/* Text that a dying actor leaves behind, quoted in its obituary. W: the actor (also from a signal
 * handler). */
struct dsr_last_words {
	_Atomic uint64_t incarnation;
	char text[248]; /* NUL-terminated */
};

/* What the scheduler must not forget when it dies. W: scheduler. */
struct dsr_scheduler_state {
	_Atomic uint64_t next_generation; /* above every generation ever handed out */
	_Atomic uint64_t next_slot_seq;   /* above every slot sequence ever handed out */
	_Atomic uint64_t pool_epoch;      /* 0 = no geometry yet */
	_Atomic uint64_t entries_visible;
	_Atomic uint64_t entries_reserved;
	_Atomic uint64_t slots_free;
	_Atomic uint64_t slots_quarantined;
	_Atomic uint64_t leases;
	_Atomic uint64_t leased_slots;
	_Atomic uint64_t reservations;
	_Atomic uint64_t engines;
	_Atomic uint64_t draining;
	uint64_t reserved[4];
};

enum dsr_entry_state {
	DSR_ENTRY_FREE = 0,
	DSR_ENTRY_RESERVED = 1, /* lanes are being written */
	DSR_ENTRY_VISIBLE = 2,  /* all lanes committed */
	DSR_ENTRY_ABORTING = 3, /* waiting for every writer's answer before the slot is free */
};

#define DSR_PAYLOAD_RAW 0

/* dsr_entry.flags: a reader found other bytes than were stored; it goes with its last lease. */
#define DSR_ENTRY_MISMATCHED 1

/* One block, in all tiers. A seqlock: the scheduler makes `seq` odd, writes, makes it even
 * (release); readers load it (acquire), copy, fence, load again. W: scheduler R: all. */
struct dsr_entry {
	_Atomic uint64_t seq;
	uint64_t generation; /* new for every binding of this row to a key */
	struct dsr_key key;
	uint64_t lanes_stored; /* bit per lane; all set = may become VISIBLE */
	uint64_t slot_seq;     /* sequence of l1_slot when it was bound */
	uint64_t l2_slot;      /* UINT64_MAX = not in L2 */
	uint64_t last_use;     /* logical clock of the scheduler: greater = used later */
	uint32_t state;        /* enum dsr_entry_state */
	uint32_t l1_slot;      /* DSR_SLOT_NONE = not in L1 */
	uint32_t parent;       /* entry of the block before it in its prefix, or DSR_ENTRY_NONE */
	uint16_t payload;      /* DSR_PAYLOAD_* */
	uint16_t flags;
	uint32_t stored_bytes;      /* of each lane's payload */
	uint32_t depth;             /* blocks before it in its prefix */
	uint64_t parent_generation; /* of `parent`: a reused row is not a parent */
	uint64_t reserved[2];
};

/* Counters of one process. Monotonic but for gauges. W: its process. R: all. */
struct dsr_counters_page {
	_Atomic uint64_t incarnation; /* of the present or last owner, 0 = free */
	_Atomic uint32_t role;        /* enum dsr_role */
	int32_t pid;
	_Atomic uint64_t generation; /* moves when a page gets another owner */
	uint64_t reserved[5];
	_Atomic uint64_t v[DSR_COUNTERS_PER_PAGE]; /* index: enum dsr_counter */
};

enum dsr_record_op { DSR_RECORD_LOAD = 1, DSR_RECORD_STORE = 2 };
enum dsr_record_status {
	DSR_RECORD_OK = 0,
	DSR_RECORD_PARTIAL = 1, /* some blocks failed */
	DSR_RECORD_FAILED = 2,
	DSR_RECORD_DROPPED = 3,
};

/* One finished load or store of one rank. The times follow each other: open + wait + ipc + copy +
 * kv + sync = total. Seqlock per row: the n-th record ever has seq 2n + 1 while it is written and
 * 2n + 2 then; a writer takes a row by moving the ring's head.
 * W: the engine worker that took the row. */
struct dsr_record {
	_Atomic uint64_t seq;
	uint64_t incarnation; /* of the writing worker */
	uint64_t end_ns;      /* CLOCK_REALTIME */
	uint64_t bytes;
	uint64_t total_ns;
	uint64_t open_ns; /* job queued -> staging buffer taken (transfer open) */
	uint64_t wait_ns; /* in the actor's queue (dispatcher wait) */
	uint64_t ipc_ns;  /* messages under way */
	uint64_t copy_ns; /* the actor's copies (transfer load) */
	uint64_t kv_ns;   /* gather or scatter (KV copy) */
	uint64_t sync_ns; /* waiting for the stream at the end (worker sync, transfer sync) */
	uint32_t op;      /* enum dsr_record_op */
	uint32_t status;  /* enum dsr_record_status */
	uint32_t rank;
	uint32_t blocks;
	uint32_t copies;    /* blocks copied */
	uint32_t copy_runs; /* coalesced runs they made */
	uint32_t l1_hits;
	uint32_t l1_misses;
	uint32_t l2_reads;
	uint32_t failed_blocks;
	uint32_t reasons; /* bit per DSR_REASON_* (enum dsr_reason) of failed or dropped blocks */
	uint32_t segments;
	char request[112]; /* NUL-terminated, cut when longer */
	uint64_t check;    /* digest of the words between, seeded with seq: tells mixed rows */
};

struct dsr_record_head {
	_Atomic uint64_t head; /* rows ever taken; row = head % DSR_RECORDS. W: all (fetch_add) */
	uint64_t reserved[7];
};

/* Fixed by the first REGISTER. W: scheduler, before READY. */
struct dsr_pool_geometry {
	uint8_t fingerprint[DSR_NAMESPACE_BYTES];
	uint64_t slot_bytes;    /* payload of one block in one lane */
	uint64_t slot_stride;   /* slot_bytes rounded up to DSR_SLOT_ALIGN */
	uint64_t lane_stride;   /* bytes from one lane to the next, multiple of DSR_LANE_ALIGN */
	uint64_t lanes_off;     /* of lane 0, multiple of DSR_LANE_ALIGN */
	uint64_t digests_off;   /* uint64_t[lanes][slots rounded up to 8]; W: lane's store actor */
	uint64_t slot_seqs_off; /* _Atomic uint64_t[slots]; W: scheduler */
	uint32_t lanes;
	uint32_t slots;
	uint32_t block_tokens;
	uint32_t payload;
	uint64_t reserved[2];
};

struct dsr_pool_header {
	struct dsr_segment_header base;
	struct dsr_pool_geometry geometry;
};

#endif
