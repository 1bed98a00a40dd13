/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "counters.h"
#include "layout.h"
#include "util.h"

#define SOCKET_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

bool dsr_device_name_ok(const char *device)
{
	static const char first[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	static const char rest[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:._-";
	size_t n = strlen(device);

	return n > 0 && n < DSR_DEVICE_NAME_MAX && strchr(first, device[0]) != NULL &&
	       strspn(device, rest) == n;
}

int dsr_role_path(const char *run_dir, const char *prefix, enum dsr_role role, const char *device,
                  const char *suffix, char *ret_text, size_t text_bytes)
{
	char text[SOCKET_PATH_MAX + 1];
	int n;

	if (device[0] && !dsr_device_name_ok(device))
		return -EINVAL;
	n = snprintf(text, sizeof(text), "%s/%s%s%s%s%s", run_dir, prefix, dsr_role_name(role),
	             device[0] ? "-" : "", device, suffix);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -ENAMETOOLONG;
	if ((size_t)n >= text_bytes)
		return -E2BIG;
	memcpy(ret_text, text, (size_t)n + 1);
	return 0;
}

int dsr_role_lock(const char *run_dir, enum dsr_role role, const char *device)
{
	char path[SOCKET_PATH_MAX + 1];
	int fd;
	int r;

	r = dsr_role_path(run_dir, "", role, device, ".lock", path, sizeof(path));
	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == -1) {
		r = errno == EWOULDBLOCK ? -EEXIST : -errno;
		dsr_close(&fd);
		return r;
	}
	return fd;
}

int dsr_run_dir_check(const char *run_dir)
{
	struct stat st;

	if (lstat(run_dir, &st) == -1)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 0777) != 0700)
		return -EACCES;
	return 0;
}
