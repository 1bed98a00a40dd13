/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "json.h"
#include "table.h"

json_t *dsr_config_json(const struct dsr_options *options, bool is_auto,
                        const struct dsr_memory *memory)
{
	json_t *object = dsr_json_new(), *settings = json_object(), *l1 = json_object();
	const struct dsr_option_info *info;
	char text[DSR_OPTION_TEXT_MAX];

	for (unsigned i = 0; (info = dsr_option_info(i)) != NULL; i++) {
		/* a value that does not fit its own maximum cannot have been set */
		(void)dsr_options_text(options, i, text, sizeof(text));
		dsr_json_set(&settings, info->key, dsr_json_text(text, sizeof(text)));
	}
	dsr_json_set(&object, "options", settings);
	dsr_json_set(&l1, "auto", json_boolean(is_auto));
	dsr_json_set(&l1, "mem_available", dsr_json_u64(memory->available));
	dsr_json_set(&l1, "cgroup_headroom",
	             memory->headroom == UINT64_MAX ? json_null() : dsr_json_u64(memory->headroom));
	dsr_json_set(&object, "l1", l1);
	return object;
}

/* "1073741824 (1GiB)" for sizes. */
static void print_value(struct dsr_table *table, const struct dsr_option_info *info,
                        const char *text)
{
	char size[DSR_TABLE_TEXT];
	uint64_t bytes;

	if (strcmp(info->type, "SIZE") == 0 && dsr_parse_size(text, &bytes) == 0) {
		dsr_format_size(bytes, size, sizeof(size));
		dsr_table_cell(table, "%s", size);
	} else {
		dsr_table_cell(table, "%s", text[0] != '\0' ? text : "(empty)");
	}
}

static void print_l1(const json_t *l1, FILE *out)
{
	char available[DSR_TABLE_TEXT], headroom[DSR_TABLE_TEXT] = "unlimited";

	dsr_format_size(dsr_json_get_u64(l1, "mem_available"), available, sizeof(available));
	if (!json_is_null(json_object_get(l1, "cgroup_headroom")))
		dsr_format_size(dsr_json_get_u64(l1, "cgroup_headroom"), headroom,
		                sizeof(headroom));
	fprintf(out, "\nl1.size %s: MemAvailable %s, the cgroup's headroom %s\n",
	        dsr_json_get_bool(l1, "auto") ? "was chosen" : "is as given", available, headroom);
}

int dsr_config_print(const json_t *config, FILE *out)
{
	const json_t *settings = json_object_get(config, "options");
	const struct dsr_option_info *info;
	struct dsr_table *table;
	int r;

	if (config == NULL)
		return -ENOMEM;
	r = dsr_table_new("SETTING,VALUE,ACCEPTED", &table);
	if (r < 0)
		return r;
	for (unsigned i = 0; (info = dsr_option_info(i)) != NULL; i++) {
		dsr_table_cell(table, "%s", info->key);
		print_value(table, info, dsr_json_get_text(settings, info->key));
		dsr_table_cell(table, "%s", info->accepted);
	}
	r = dsr_table_print(table, out);
	dsr_table_free(&table);
	print_l1(json_object_get(config, "l1"), out);
	return r;
}
