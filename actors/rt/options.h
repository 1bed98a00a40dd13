/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from include/options.def: flags in, checked values out. */
#ifndef DSR_RT_OPTIONS_H
#define DSR_RT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DSR_OPTION_TEXT_MAX 1024

#define DSR_OPTION_C_STR(field) char field[DSR_OPTION_TEXT_MAX];
#define DSR_OPTION_C_LIST(field) char field[DSR_OPTION_TEXT_MAX];
#define DSR_OPTION_C_SIZE(field) uint64_t field;
#define DSR_OPTION_C_MS(field) uint64_t field;
#define DSR_OPTION_C_US(field) uint64_t field;
#define DSR_OPTION_C_BOOL(field) bool field;
#define DSR_OPTION_C_ENUM(field) uint32_t field; /* index into the accepted values */

struct dsr_options {
#define DSR_OPTION(field, key, TYPE, def, accepted, help) DSR_OPTION_C_##TYPE(field)
#include "options.def"
#undef DSR_OPTION
};

/* Defaults, with auto and empty values not yet resolved. */
void dsr_options_init(struct dsr_options *options);
/* Sets one value: `key` in TOML form ("l1.size") or flag form ("l1-size"). -ENOENT: no such
 * setting; -EINVAL: bad value. ret_why (at least 256 bytes) names the setting, the value and what
 * is accepted. */
int dsr_options_set(struct dsr_options *options, const char *key, const char *value, char *ret_why,
                    size_t why_bytes);
/* Takes --key=value and --key value from argv; everything else is left in place, in order, and
 * *argc is what is left. Stops at "--". Errors as dsr_options_set. */
int dsr_options_parse(struct dsr_options *options, int *argc, char **argv, char *ret_why,
                      size_t why_bytes);
/* Fills in run_dir and the auto size, and checks what depends on the machine: l1.size must fit
 * MemAvailable and the cgroup's headroom (-ENOMEM, with the numbers), l2.size needs l2.dirs. */
int dsr_options_resolve(struct dsr_options *options, char *ret_why, size_t why_bytes);
/* The first part of it alone, for what runs beside a supervisor that resolved the rest: an empty
 * run_dir becomes $DASER_RUN_DIR, $XDG_RUNTIME_DIR/daser or /tmp/daser-<uid>. -ENAMETOOLONG. */
int dsr_options_resolve_run_dir(struct dsr_options *options, char *ret_why, size_t why_bytes);
/* Value of setting `index` as text, the form its parser takes (sizes as bytes). -ENOENT past the
 * last one. */
int dsr_options_text(const struct dsr_options *options, unsigned index, char *ret_text,
                     size_t text_bytes);

struct dsr_option_info {
	const char *key, *flag, *type, *def, *accepted, *help;
};
const struct dsr_option_info *dsr_option_info(unsigned index); /* NULL past the last one */

/* "64MiB", "4096", "1.5GiB" -> bytes, rounded down. -EINVAL. */
int dsr_parse_size(const char *text, uint64_t *ret_bytes);
/* Bytes as people write them: "64MiB", and rounded "31.3GiB" where no unit fits. */
void dsr_format_size(uint64_t bytes, char *ret_text, size_t text_bytes);

#endif
