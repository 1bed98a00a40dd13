/* SPDX-License-Identifier: Apache-2.0 */
/* A small service for whole-object tests: a broker in this process, and a scheduler, a load and a
 * store actor of device host:0, each a process that can be killed. It keeps what is stored, hands
 * it out again, and holds back what the test wants held. */
#ifndef DSR_TEST_NATIVE_FAKE_SERVICE_H
#define DSR_TEST_NATIVE_FAKE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "fake_actor.h"
#include "fake_broker.h"
#include "roles.h"

struct fake_service;

/* With its supervisor and control segment; no actor runs yet. */
struct fake_service *fake_service_open(void);
/* Kills what runs. */
void fake_service_close(struct fake_service **service);

const char *fake_service_run_dir(const struct fake_service *service);
struct dsr_control *fake_service_control(struct fake_service *service);
struct fake_shared *fake_service_shared(struct fake_service *service);

/* Starts an actor and waits until it can be connected to; one that runs is killed before. */
void fake_service_start(struct fake_service *service, enum dsr_role role);
void fake_service_kill(struct fake_service *service, enum dsr_role role);
/* Scheduler, load and store. */
void fake_service_start_all(struct fake_service *service);

/* What the scheduler answers to ENGINE and REGISTER: 0, or that error with a reason. */
void fake_service_refuse(struct fake_service *service, int err, const char *reason);
/* Keeps LOADs (or STOREs) unanswered, or answers them. */
void fake_service_hold(struct fake_service *service, enum dsr_role role, bool is_held);
/* Flips a bit of every block that is cached. */
void fake_service_corrupt(struct fake_service *service);

#endif
