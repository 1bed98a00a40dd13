/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations on the scheduler's tables and on the model; after each one both must say the
 * same of every key. DSR_TEST_SEED repeats a run, DSR_TEST_STEPS sets its length. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define STEPS 60000 /* of each shape */

/* ---- operations ---- */

static void do_lookup(struct pair *p)
{
	struct dsr_key keys[MODEL_KEYS];
	int path[MODEL_KEYS], first, before, count = pair_pick_path(p, path, &first, &before);

	pair_path_keys(path, count, keys);
	assert_int_equal(dsr_cache_prefix(p->rig.cache, keys, (uint32_t)count, NULL),
	                 model_lookup(&p->model, path, count));
}

static int lease_call(struct pair *p, const struct model_lease *lease, int before,
                      uint32_t *ret_count, struct dsr_ref *ret_refs)
{
	struct dsr_key keys[MODEL_KEYS], parent;
	struct dsr_lease_request request = {
		.owner = p->incarnations[lease->owner],
		.id = lease->id,
		.keys = keys,
		.count = (uint32_t)lease->asked,
		.ttl_ns = lease->end_ns - p->rig.now_ns,
	};

	pair_path_keys(lease->path, lease->asked, keys);
	if (before != MODEL_NONE) {
		parent = rig_key((uint64_t)before);
		request.parent = &parent;
	}
	return dsr_leases_grant(p->rig.leases, &request, p->rig.now_ns, ret_refs, ret_count);
}

static void do_lease(struct pair *p)
{
	struct model_lease *lease;
	uint32_t count = 0;
	int first, before, row, granted;

	row = pair_pick(p, MODEL_LEASES);
	lease = &p->model.leases[row];
	if (lease->is_live) { /* a repeat */
		struct dsr_ref refs[MODEL_KEYS];

		lease->end_ns = p->rig.now_ns + 500 + (uint64_t)pair_pick(p, 3000);
		assert_int_equal(lease_call(p, lease, MODEL_NONE, &count, refs), 0);
		assert_int_equal(count, lease->granted);
		assert_memory_equal(refs, p->lease_refs[row], count * sizeof(refs[0]));
		return;
	}
	*lease = (struct model_lease){.owner = pair_pick(p, MODEL_OWNERS), .id = ++p->lease_id};
	lease->asked = pair_pick_path(p, lease->path, &first, &before);
	lease->end_ns = p->rig.now_ns + 500 + (uint64_t)pair_pick(p, 3000);
	if (pair_pick(p, 2) == 0)
		before = MODEL_NONE;
	granted = model_lease(&p->model, lease, before);
	assert_int_equal(lease_call(p, lease, before, &count, p->lease_refs[row]),
	                 granted < 0 ? granted : 0);
	if (granted >= 0)
		assert_int_equal(count, granted);
	for (int i = 0; i < granted; i++) {
		struct dsr_key key = rig_key((uint64_t)lease->path[i]);

		assert_int_equal(p->lease_refs[row][i].entry, dsr_cache_find(p->rig.cache, &key));
	}
}

static void do_release(struct pair *p)
{
	struct model_lease *lease = &p->model.leases[pair_pick(p, MODEL_LEASES)];

	if (!lease->is_live)
		return;
	assert_true(dsr_leases_release(p->rig.leases, p->incarnations[lease->owner], lease->id));
	model_lease_end(&p->model, lease);
}

static void do_time(struct pair *p)
{
	uint32_t expired = 0;

	p->rig.now_ns += (uint64_t)pair_pick(p, 1000);
	for (int i = 0; i < MODEL_LEASES; i++) {
		if (!p->model.leases[i].is_live || p->model.leases[i].end_ns > p->rig.now_ns)
			continue;
		model_lease_end(&p->model, &p->model.leases[i]);
		expired++;
	}
	assert_int_equal(dsr_leases_expire(p->rig.leases, p->rig.now_ns), expired);
}

static int reserve_call(struct pair *p, int row, struct dsr_reserve_answer *ret_answer)
{
	const struct model_reservation *resv = &p->model.reservations[row];
	struct dsr_key keys[MODEL_KEYS], parent;
	struct dsr_reserve_request request = {
		.owner = (uint32_t)resv->owner,
		.id = resv->id,
		.keys = keys,
		.count = (uint32_t)resv->count,
		.devices = resv->devices,
	};

	pair_path_keys(resv->path, resv->count, keys);
	for (int key = resv->parent; key != MODEL_NONE; key = p->model.parent[key])
		request.depth++;
	if (resv->parent != MODEL_NONE) {
		parent = rig_key((uint64_t)resv->parent);
		request.parent = &parent;
	}
	return dsr_reservations_reserve(p->rig.reservations, &request, p->rig.now_ns, ret_answer);
}

static void check_answer(struct pair *p, int row, const struct dsr_reserve_answer *answer,
                         bool is_repeat)
{
	const struct model_reservation *resv = &p->model.reservations[row];
	uint32_t got = 0;

	for (int i = 0; i < resv->count; i++) {
		assert_int_equal(answer->status[i], resv->status[i]);
		if (resv->status[i] != 0)
			continue;
		if (is_repeat)
			assert_memory_equal(&answer->refs[got], &p->refs[row][i],
			                    sizeof(struct dsr_ref));
		p->refs[row][i] = answer->refs[got++];
	}
	assert_int_equal(answer->reserved, got);
}

static void do_reserve(struct pair *p)
{
	int row = p->next_row, first;
	struct model_reservation *resv = &p->model.reservations[row];
	struct dsr_reserve_answer answer;

	if (resv->is_live || dsr_reservations_live(p->rig.reservations) == 64)
		return;
	p->next_row = (row + 1) % MODEL_RESERVATIONS;
	*resv = (struct model_reservation){
		.owner = pair_pick(p, MODEL_OWNERS),
		.devices = (UINT32_C(1) << p->model.lanes) - 1,
	};
	resv->id = p->next_id[resv->owner] += 1 + (uint64_t)pair_pick(p, 3);
	resv->count = pair_pick_path(p, resv->path, &first, &resv->parent);
	(void)model_reserve(&p->model, row, p->rig.now_ns);
	assert_int_equal(reserve_call(p, row, &answer), 0);
	check_answer(p, row, &answer, false);
}

/* A live one has the same answer again, a done one too, unless it is forgotten. */
static void do_reserve_again(struct pair *p)
{
	int row = pair_pick(p, MODEL_RESERVATIONS), r;
	const struct model_reservation *resv = &p->model.reservations[row];
	struct dsr_reserve_answer answer;

	if (resv->id == 0 || resv->owner == MODEL_NONE)
		return;
	r = reserve_call(p, row, &answer);
	if (r == 0)
		check_answer(p, row, &answer, true);
	else
		assert_int_equal(r, resv->is_live ? 0 : -ESTALE);
}

/* Some of the reserved blocks of a reservation. */
static int pick_blocks(struct pair *p, int row, int *ret_keys, struct dsr_ref *ret_refs)
{
	const struct model_reservation *resv = &p->model.reservations[row];
	int count = 0, odds = 1 + pair_pick(p, 3);

	for (int i = 0; i < resv->count; i++) {
		if (resv->status[i] != 0 || pair_pick(p, odds) != 0)
			continue;
		ret_keys[count] = resv->path[i];
		ret_refs[count++] = p->refs[row][i];
	}
	return count;
}

/* A row that was used, and whose owner lives. */
static int pick_reservation(struct pair *p)
{
	int row = (p->next_row + MODEL_RESERVATIONS - 1 - pair_pick(p, 24)) % MODEL_RESERVATIONS;
	const struct model_reservation *resv = &p->model.reservations[row];

	return resv->id == 0 || resv->owner == MODEL_NONE ? MODEL_NONE : row;
}

/* The ref names the block that the reservation reserved, or something newer. */
static bool is_current(struct pair *p, int row, int key)
{
	return p->model.blocks[key].reservation == row;
}

static void do_commit(struct pair *p)
{
	int row = pick_reservation(p), keys[MODEL_KEYS], count, lane = pair_pick(p, p->model.lanes);
	struct dsr_ref refs[MODEL_KEYS];
	struct dsr_lane_report report = {.lane = (uint32_t)lane, .refs = refs};
	uint32_t committed, visible, expected = 0, expected_visible = 0;

	if (row == MODEL_NONE)
		return;
	count = pick_blocks(p, row, keys, refs);
	report.count = (uint32_t)count;
	report.owner = p->incarnations[p->model.reservations[row].owner];
	report.id = p->model.reservations[row].id;
	for (int i = 0; i < count; i++) {
		const struct model_block *block = &p->model.blocks[keys[i]];

		expected += is_current(p, row, keys[i]) && block->state == MODEL_RESERVED &&
		            (block->lanes >> lane & 1) == 0;
		expected_visible += model_commit(&p->model, row, keys[i], lane);
	}
	dsr_reservations_commit(p->rig.reservations, &report, &committed, &visible);
	assert_int_equal(committed, expected);
	assert_int_equal(visible, expected_visible);
}

static void do_abort(struct pair *p)
{
	int row = pick_reservation(p), keys[MODEL_KEYS], count, lane = pair_pick(p, p->model.lanes);
	struct dsr_ref refs[MODEL_KEYS];
	struct dsr_lane_report report = {.lane = (uint32_t)lane, .refs = refs};
	bool is_abandoned = pair_pick(p, 2) == 0;
	uint32_t except = is_abandoned ? 0 : UINT32_C(1) << lane;
	int aborted = 0;

	if (row == MODEL_NONE)
		return;
	count = pick_blocks(p, row, keys, refs);
	report.count = (uint32_t)count;
	report.owner = p->incarnations[p->model.reservations[row].owner];
	report.id = p->model.reservations[row].id;
	if (is_abandoned && count == 0)
		return;
	for (int i = 0; i < count; i++)
		if (is_current(p, row, keys[i]))
			aborted += model_abort(&p->model, keys[i], except);
	if (!is_abandoned)
		assert_int_equal(dsr_reservations_abort(p->rig.reservations, &report, except),
		                 aborted);
	else if (dsr_reservations_abandon(p->rig.reservations,
	                                  (uint32_t)p->model.reservations[row].owner, report.id,
	                                  refs, report.count) < 0)
		assert_int_equal(aborted, 0);
}

static void do_abandon_all(struct pair *p)
{
	int row = pick_reservation(p);

	if (row == MODEL_NONE || pair_pick(p, 4) != 0)
		return;
	(void)model_abort_lacking(&p->model, row, UINT64_MAX, 0);
	(void)dsr_reservations_abandon(p->rig.reservations,
	                               (uint32_t)p->model.reservations[row].owner,
	                               p->model.reservations[row].id, NULL, 0);
}

/* Any of the CANCELs under way is answered. What it covers is what it named when it was sent. */
static void do_answer(struct pair *p)
{
	struct rig *rig = &p->rig;
	struct rig_cancel cancel;
	uint32_t at;

	if (rig->cancel_count == 0)
		return;
	at = (uint32_t)pair_pick(p, (int)rig->cancel_count);
	cancel = rig->cancels[at];
	for (int key = 0; key < p->model.keys; key++) {
		struct dsr_key of = rig_key((uint64_t)key);
		uint32_t entry = dsr_cache_find(rig->cache, &of);

		for (uint32_t i = 0; i < cancel.count; i++)
			if (entry == cancel.refs[i].entry &&
			    dsr_cache_resolve(rig->cache, &cancel.refs[i]) == entry)
				model_device_answered(&p->model, key, (int)cancel.device);
	}
	rig->cancels[at] = rig->cancels[--rig->cancel_count];
	dsr_reservations_answered(rig->reservations, cancel.cookie, cancel.device);
}

/* A store actor dies; its successor is there at once. */
static void do_device_death(struct pair *p)
{
	uint64_t lanes[DSR_RESERVATION_OWNERS] = {0};
	int device = pair_pick(p, p->model.lanes), aborted = 0;

	if (pair_pick(p, 40) != 0)
		return;
	for (int owner = 0; owner < MODEL_OWNERS; owner++)
		lanes[owner] = UINT64_C(1) << device;
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		if (p->model.reservations[row].is_live &&
		    p->model.reservations[row].owner != MODEL_NONE &&
		    (p->model.reservations[row].devices >> device & 1) != 0)
			aborted += model_abort_lacking(&p->model, row, lanes[0], 0);
	model_device_dead(&p->model, device);
	assert_int_equal(dsr_reservations_device_dead(p->rig.reservations, (uint32_t)device, lanes),
	                 aborted);
	for (uint32_t i = p->rig.cancel_count; i-- > 0;)
		if (p->rig.cancels[i].device == (uint32_t)device)
			p->rig.cancels[i] = p->rig.cancels[--p->rig.cancel_count];
}

static void do_worker_death(struct pair *p)
{
	int owner = pair_pick(p, MODEL_OWNERS), lane = pair_pick(p, p->model.lanes), aborted = 0;

	if (pair_pick(p, 40) != 0)
		return;
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		if (p->model.reservations[row].is_live && p->model.reservations[row].owner == owner)
			aborted += model_abort_lacking(&p->model, row, UINT64_C(1) << lane, 0);
	assert_int_equal(dsr_reservations_lanes_dead(p->rig.reservations, (uint32_t)owner,
	                                             UINT64_C(1) << lane),
	                 aborted);
}

static void do_engine_death(struct pair *p)
{
	int owner = pair_pick(p, MODEL_OWNERS);
	uint32_t released = 0;

	if (pair_pick(p, 40) != 0)
		return;
	for (int i = 0; i < MODEL_LEASES; i++) {
		if (!p->model.leases[i].is_live || p->model.leases[i].owner != owner)
			continue;
		model_lease_end(&p->model, &p->model.leases[i]);
		released++;
	}
	assert_int_equal(dsr_leases_release_owner(p->rig.leases, p->incarnations[owner]), released);
	for (int row = 0; row < MODEL_RESERVATIONS; row++) {
		if (p->model.reservations[row].owner != owner)
			continue;
		(void)model_abort_lacking(&p->model, row, UINT64_MAX, 0);
		p->model.reservations[row].owner = MODEL_NONE;
	}
	dsr_reservations_owner_end(p->rig.reservations, (uint32_t)owner);
	p->incarnations[owner] += MODEL_OWNERS;
	p->next_id[owner] = 0;
	dsr_reservations_owner_begin(p->rig.reservations, (uint32_t)owner, p->incarnations[owner]);
}

static void do_mismatch(struct pair *p)
{
	int key = pair_pick(p, p->model.keys);
	struct dsr_key of = rig_key((uint64_t)key);

	if (pair_pick(p, 10) != 0 || p->model.blocks[key].state != MODEL_VISIBLE)
		return;
	assert_int_equal(dsr_cache_mismatch(p->rig.cache, dsr_cache_find(p->rig.cache, &of)),
	                 model_mismatch(&p->model, key));
}

static void do_forget(struct pair *p)
{
	if (pair_pick(p, 100) == 0)
		assert_int_equal(dsr_cache_forget(p->rig.cache), model_forget(&p->model));
}

static void do_restart(struct pair *p)
{
	struct dsr_cache_rebuilt rebuilt;
	uint32_t kept = 0;

	if (pair_pick(p, 100) != 0)
		return;
	rig_close_tables(&p->rig);
	rig_open_tables(&p->rig);
	for (int owner = 0; owner < MODEL_OWNERS; owner++)
		dsr_reservations_owner_begin(p->rig.reservations, (uint32_t)owner,
		                             p->incarnations[owner]);
	assert_int_equal(dsr_cache_rebuild(p->rig.cache, p->rig.now_ns + 2000, &rebuilt), 0);
	model_restart(&p->model, p->rig.now_ns + 2000);
	for (int key = 0; key < p->model.keys; key++)
		kept += p->model.blocks[key].state == MODEL_VISIBLE;
	assert_int_equal(rebuilt.kept, kept);
	assert_int_equal(rebuilt.torn + rebuilt.invalid + rebuilt.doubled, 0);
	assert_int_equal(rebuilt.quarantined, p->model.quarantined);
}

static void do_end_quarantine(struct pair *p)
{
	if (pair_pick(p, 20) != 0)
		return;
	assert_int_equal(dsr_cache_end_quarantine(p->rig.cache), p->model.quarantined);
	p->model.quarantined = 0;
}

static void (*const operations[])(struct pair *) = {
	do_lookup,  do_lease,   do_lease,          do_release,      do_time,         do_reserve,
	do_reserve, do_reserve, do_reserve_again,  do_commit,       do_commit,       do_commit,
	do_commit,  do_commit,  do_commit,         do_abort,        do_abandon_all,  do_answer,
	do_answer,  do_answer,  do_device_death,   do_worker_death, do_engine_death, do_mismatch,
	do_forget,  do_restart, do_end_quarantine,
};

static void open_pair(struct pair *p, int keys, int slots, int lanes)
{
	uint64_t seed = p->seed;

	memset(p, 0, sizeof(*p));
	p->seed = seed;
	p->model.keys = keys;
	p->model.slots = slots;
	p->model.lanes = lanes;
	for (int key = 0; key < keys; key++) {
		p->model.blocks[key].reservation = MODEL_NONE;
		/* Mostly long chains, some forks. */
		p->model.parent[key] = pair_pick(p, 8) == 0 || key == 0 ? MODEL_NONE
		                       : pair_pick(p, 3) == 0           ? pair_pick(p, key)
		                                                        : key - 1;
	}
	for (int row = 0; row < MODEL_RESERVATIONS; row++)
		p->model.reservations[row].owner = MODEL_NONE;
	rig_open(&p->rig, (uint32_t)slots, (uint32_t)lanes);
	for (int owner = 0; owner < MODEL_OWNERS; owner++) {
		p->incarnations[owner] = 5000 + (uint64_t)owner;
		dsr_reservations_owner_begin(p->rig.reservations, (uint32_t)owner,
		                             p->incarnations[owner]);
	}
}

static void run(int keys, int slots, int lanes)
{
	struct pair *p = calloc(1, sizeof(*p));
	const char *text = getenv("DSR_TEST_STEPS");
	uint64_t steps = text == NULL ? STEPS : strtoull(text, NULL, 0);

	assert_non_null(p);
	p->seed = rig_seed() * 1000 + (uint64_t)(keys * 7 + slots * 3 + lanes);
	open_pair(p, keys, slots, lanes);
	for (p->step = 0; p->step < steps; p->step++) {
		operations[pair_pick(p, sizeof(operations) / sizeof(operations[0]))](p);
		pair_compare(p);
	}
	rig_close(&p->rig);
	free(p);
}

static void a_cache_far_too_small_agrees_with_the_model(void **state)
{
	(void)state;
	run(48, 8, 1);
}

static void a_cache_of_half_the_keys_agrees_with_the_model(void **state)
{
	(void)state;
	run(64, 32, 2);
}

static void a_cache_for_all_keys_agrees_with_the_model(void **state)
{
	(void)state;
	run(40, 40, 3);
}

static void sixteen_lanes_agree_with_the_model(void **state)
{
	(void)state;
	run(24, 12, 16);
}

static void a_cache_of_one_slot_agrees_with_the_model(void **state)
{
	(void)state;
	run(8, 1, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cache_far_too_small_agrees_with_the_model),
		cmocka_unit_test(a_cache_of_half_the_keys_agrees_with_the_model),
		cmocka_unit_test(a_cache_for_all_keys_agrees_with_the_model),
		cmocka_unit_test(sixteen_lanes_agree_with_the_model),
		cmocka_unit_test(a_cache_of_one_slot_agrees_with_the_model),
	};

	return cmocka_run_group_tests_name("scheduler_model", tests, NULL, NULL);
}
