/* SPDX-License-Identifier: Apache-2.0 */
/* As much of a supervisor as libdaser needs: attach.sock, with hello, get, put and drop, in a
 * thread of its own. */
#ifndef DSR_TEST_NATIVE_FAKE_BROKER_H
#define DSR_TEST_NATIVE_FAKE_BROKER_H

struct fake_broker;

/* Listens in run_dir. NULL: it could not. */
struct fake_broker *fake_broker_open(const char *run_dir);
/* Closes every connection and object. */
void fake_broker_close(struct fake_broker **broker);

/* Offers an object; fd is duplicated. */
void fake_broker_put(struct fake_broker *broker, const char *name, int fd);
/* A duplicate of an object that some client put, or -1. */
int fake_broker_get(struct fake_broker *broker, const char *name);

#endif
