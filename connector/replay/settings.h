/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of daser-replay, parsed and checked. */
#ifndef REPLAY_SETTINGS_H
#define REPLAY_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define REPLAY_SPAN_TOKENS 512 /* tokens that one hash id of a trace stands for */
#define REPLAY_PHASES_MAX 16
#define REPLAY_PHASE_NAME_MAX 8

#define REPLAY_C_TEXT(field) const char *field; /* borrowed from argv or static */
#define REPLAY_C_CHOICE(field) const char *field;
#define REPLAY_C_FLAG(field) bool field;
#define REPLAY_C_NUMBER(field) uint64_t field;
#define REPLAY_C_REAL(field) double field;
#define REPLAY_C_SIZE(field) uint64_t field;

struct replay_settings {
#define REPLAY_SETTING(field, flag, TYPE, def, accepted, help) REPLAY_C_##TYPE(field)
#include "settings.def"
#undef REPLAY_SETTING
	/* made from the above */
	char phase_names[REPLAY_PHASES_MAX][REPLAY_PHASE_NAME_MAX];
	uint32_t phase_count;
	uint32_t wait_us; /* lookup_wait_us as a number */
	/* of a rank's process */
	int worker_fd; /* -1: this is the engine */
	bool help, version;
};

/* Parses and checks argv. -EINVAL with ret_why naming flag, value and what is accepted. */
int replay_settings_parse(struct replay_settings *ret_settings, int argc, char **argv,
                          char *ret_why, size_t why_bytes);
void replay_settings_help(FILE *file);
/* The settings as a JSON object, flags as keys. New reference, NULL when memory is short. */
json_t *replay_settings_json(const struct replay_settings *settings);

#endif
