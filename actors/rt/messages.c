/* SPDX-License-Identifier: Apache-2.0 */
/* The description of every message, made from messages.def. */
#include <assert.h>
#include <string.h>

#include "codec.h"

/* clang-format off */
#define FIELD(name, type, KIND, doc)                                                               \
	{#name, type, doc, offsetof(__typeof__(*self), name), DSR_FIELD_##KIND},
#define DSR_F_U32(name, doc) FIELD(name, "u32", U32, doc)
#define DSR_F_U64(name, doc) FIELD(name, "u64", U64, doc)
#define DSR_F_I32(name, doc) FIELD(name, "i32", I32, doc)
#define DSR_F_STR(name, doc) FIELD(name, "str", STR, doc)
#define DSR_F_BIN(name, doc) FIELD(name, "bin", BIN, doc)
#define DSR_F_KEYS(name, doc) FIELD(name, "keys", KEYS, doc)
#define DSR_F_REFS(name, doc) FIELD(name, "refs", REFS, doc)
#define DSR_F_U64S(name, doc) FIELD(name, "u64s", U64S, doc)
#define DSR_F_I32S(name, doc) FIELD(name, "i32s", I32S, doc)

/* A function each, since a field's offset needs its struct's name and the field macros do not know
 * it: here `self` tells. */
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields)                           \
	static const struct dsr_msg_info *info_##name(void)                                        \
	{                                                                                          \
		const struct dsr_msg_##name *self = NULL;                                          \
		static const struct dsr_field_info table[] = {fields};                             \
		static_assert(sizeof(table) <= DSR_MSG_FIELDS_MAX * sizeof(table[0]), #name);      \
		static const struct dsr_msg_info info = {                                          \
			number, DSR_KIND_##KIND, #name, #receiver, meaning, table,                 \
			sizeof(table) / sizeof(table[0]), sizeof(*self)};                          \
		(void)self;                                                                        \
		return &info;                                                                      \
	}
#include "messages.def"
#undef DSR_MESSAGE

static const struct dsr_msg_info *(*const by_order[])(void) = {
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields) info_##name,
#include "messages.def"
#undef DSR_MESSAGE
};

static const struct dsr_msg_info *(*const by_type[DSR_MSG_LIMIT])(void) = {
#define DSR_MESSAGE(NAME, name, number, KIND, receiver, meaning, fields) [number] = info_##name,
#include "messages.def"
#undef DSR_MESSAGE
};
#undef DSR_F_U32
#undef DSR_F_U64
#undef DSR_F_I32
#undef DSR_F_STR
#undef DSR_F_BIN
#undef DSR_F_KEYS
#undef DSR_F_REFS
#undef DSR_F_U64S
#undef DSR_F_I32S
#undef FIELD
/* clang-format on */

#define MESSAGE_COUNT (sizeof(by_order) / sizeof(by_order[0]))

const struct dsr_msg_info *dsr_msg_info(uint32_t type)
{
	return type < DSR_MSG_LIMIT && by_type[type] ? by_type[type]() : NULL;
}

const struct dsr_msg_info *dsr_msg_at(unsigned index)
{
	return index < MESSAGE_COUNT ? by_order[index]() : NULL;
}

const struct dsr_msg_info *dsr_msg_by_name(const char *name)
{
	unsigned i;

	for (i = 0; i < MESSAGE_COUNT; i++)
		if (strcmp(by_order[i]()->name, name) == 0)
			return by_order[i]();
	return NULL;
}
