/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include <errno.h>
#include <string.h>

void replay_setup_put(struct replay_buf *buf, const struct replay_setup *setup)
{
	replay_put_text(buf, setup->run_dir);
	replay_put_text(buf, setup->engine);
	replay_put_text(buf, setup->fingerprint_text);
	replay_put_text(buf, setup->device);
	replay_put_text(buf, setup->staging_mode);
	replay_put_u64(buf, setup->block_bytes);
	replay_put_u64(buf, setup->staging_ceiling);
	replay_put_u32(buf, setup->rank);
	replay_put_u32(buf, setup->world);
	replay_put_u32(buf, setup->lane);
	replay_put_u32(buf, setup->lanes);
	replay_put_u32(buf, setup->writer);
	replay_put_u32(buf, setup->block_tokens);
	replay_put_u32(buf, setup->blocks);
	replay_put_u32(buf, setup->layers);
	replay_put_u32(buf, setup->load_deadline_ms);
	replay_put_u32(buf, setup->save_deadline_ms);
}

int replay_setup_get(struct replay_view view, struct replay_setup *ret_setup)
{
	struct replay_setup setup = {0};

	setup.run_dir = replay_get_text(&view);
	setup.engine = replay_get_text(&view);
	setup.fingerprint_text = replay_get_text(&view);
	setup.device = replay_get_text(&view);
	setup.staging_mode = replay_get_text(&view);
	setup.block_bytes = replay_get_u64(&view);
	setup.staging_ceiling = replay_get_u64(&view);
	setup.rank = replay_get_u32(&view);
	setup.world = replay_get_u32(&view);
	setup.lane = replay_get_u32(&view);
	setup.lanes = replay_get_u32(&view);
	setup.writer = replay_get_u32(&view);
	setup.block_tokens = replay_get_u32(&view);
	setup.blocks = replay_get_u32(&view);
	setup.layers = replay_get_u32(&view);
	setup.load_deadline_ms = replay_get_u32(&view);
	setup.save_deadline_ms = replay_get_u32(&view);
	if (view.failed || view.at != view.end)
		return -EBADMSG;
	*ret_setup = setup;
	return 0;
}

int replay_run_get(struct replay_view *view, struct replay_run *ret_run)
{
	struct replay_run run = {0};

	run.name = replay_get_text(view);
	run.request = replay_get_u32(view);
	run.first = replay_get_u32(view);
	run.from = replay_get_u32(view);
	run.to = replay_get_u32(view);
	run.count = replay_get_u32(view);
	run.ids = replay_get_raw(view, run.count, sizeof(uint32_t));
	run.seeds = replay_get_raw(view, run.count, sizeof(uint64_t));
	if (view->failed)
		return -EBADMSG;
	*ret_run = run;
	return 0;
}

void replay_step_done(struct replay_step *step)
{
	replay_buf_done(&step->finished);
	replay_buf_done(&step->poison);
	replay_buf_done(&step->loads);
	replay_buf_done(&step->fills);
	replay_buf_done(&step->checks);
}

void replay_step_clear(struct replay_step *step)
{
	replay_buf_clear(&step->finished);
	replay_buf_clear(&step->poison);
	replay_buf_clear(&step->loads);
	replay_buf_clear(&step->fills);
	replay_buf_clear(&step->checks);
	step->finished_count = step->poison_count = 0;
	step->load_count = step->fill_count = step->check_count = 0;
}

void replay_step_put(struct replay_buf *buf, const struct replay_step *step, uint64_t wait_ns,
                     const void *meta, size_t meta_length)
{
	const struct replay_buf *lists[] = {&step->finished, &step->poison, &step->loads,
	                                    &step->fills, &step->checks};

	replay_put_u64(buf, wait_ns);
	replay_put_bytes(buf, meta, meta_length);
	replay_put_u32(buf, step->finished_count);
	replay_put_u32(buf, step->poison_count);
	replay_put_u32(buf, step->load_count);
	replay_put_u32(buf, step->fill_count);
	replay_put_u32(buf, step->check_count);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		buf->failed |= lists[i]->failed;
		replay_put_raw(buf, lists[i]->data, lists[i]->length);
	}
}

int replay_step_get(struct replay_view view, struct replay_step_view *ret_step)
{
	struct replay_step_view step = {0};

	step.wait_ns = replay_get_u64(&view);
	step.meta = replay_get_bytes(&view, &step.meta_length);
	step.finished_count = replay_get_u32(&view);
	step.poison_count = replay_get_u32(&view);
	step.load_count = replay_get_u32(&view);
	step.fill_count = replay_get_u32(&view);
	step.check_count = replay_get_u32(&view);
	step.lists = view;
	if (view.failed)
		return -EBADMSG;
	*ret_step = step;
	return 0;
}

/* Steps over `count` texts and returns where they began. */
static struct replay_view texts(struct replay_view *view, uint32_t count)
{
	struct replay_view begin = *view;

	while (count-- > 0 && !view->failed)
		(void)replay_get_text(view);
	return begin;
}

int replay_done_get(struct replay_view view, struct replay_done *ret_done)
{
	struct replay_done done = {0};

	done.error = (int32_t)replay_get_u32(&view);
	done.reason = replay_get_text(&view);
	done.bytes = replay_get_bytes(&view, &done.length);
	done.wrong_bytes = replay_get_u64(&view);
	done.sending_count = replay_get_u32(&view);
	done.recving_count = replay_get_u32(&view);
	done.failed_count = replay_get_u32(&view);
	done.mismatch_count = replay_get_u32(&view);
	done.sample_count = replay_get_u32(&view);
	done.sending = texts(&view, done.sending_count);
	done.recving = texts(&view, done.recving_count);
	done.failed = replay_get_raw(&view, done.failed_count, sizeof(uint32_t));
	done.mismatches = view;
	for (uint32_t i = 0; i < done.mismatch_count; i++) {
		struct replay_mismatch ignored;

		if (replay_mismatch_get(&view, &ignored) < 0)
			return -EBADMSG;
	}
	done.samples = replay_get_raw(&view, done.sample_count, sizeof(uint64_t));
	if (view.failed || view.at != view.end)
		return -EBADMSG;
	*ret_done = done;
	return 0;
}

void replay_mismatch_put(struct replay_buf *buf, const struct replay_mismatch *mismatch)
{
	replay_put_u32(buf, mismatch->request);
	replay_put_u32(buf, mismatch->block);
	replay_put_u32(buf, mismatch->id);
	replay_put_u32(buf, mismatch->after_load);
	replay_put_u64(buf, mismatch->bytes);
	replay_put_u64(buf, mismatch->first);
}

int replay_mismatch_get(struct replay_view *view, struct replay_mismatch *ret_mismatch)
{
	struct replay_mismatch mismatch = {0};

	mismatch.request = replay_get_u32(view);
	mismatch.block = replay_get_u32(view);
	mismatch.id = replay_get_u32(view);
	mismatch.after_load = replay_get_u32(view);
	mismatch.bytes = replay_get_u64(view);
	mismatch.first = replay_get_u64(view);
	if (view->failed)
		return -EBADMSG;
	*ret_mismatch = mismatch;
	return 0;
}

/* The struct is plain numbers and both ends are one executable. */
void replay_stats_put(struct replay_buf *buf, const struct daser_worker_stats *stats,
                      bool is_null_block_clean)
{
	replay_put_raw(buf, stats, sizeof(*stats));
	replay_put_u32(buf, is_null_block_clean);
}

int replay_stats_get(struct replay_view view, struct daser_worker_stats *ret_stats,
                     bool *ret_is_null_block_clean)
{
	const uint8_t *at = replay_get_raw(&view, 1, sizeof(*ret_stats));
	uint32_t clean = replay_get_u32(&view);

	if (view.failed || view.at != view.end)
		return -EBADMSG;
	(void)memcpy(ret_stats, at, sizeof(*ret_stats));
	*ret_is_null_block_clean = clean != 0;
	return 0;
}
