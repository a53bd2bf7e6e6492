/*
 * slowsync makes a server behave as if its disk were slow: each call that waits for data to reach the disk first
 * sleeps for a random time between 0 and twice REHOP_SERVICES_SYNC_DELAY (milliseconds). scripts/services compiles
 * it and loads it into databases by LD_PRELOAD.
 *
 * The system calls are made directly, so the library needs no other and also works with a newer C library than the
 * one it was compiled with. Writes to files that are open with O_SYNC or O_DSYNC are not delayed: by default no
 * database here uses these flags.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double delay; /* on average, in nanoseconds */

__attribute__((constructor)) static void read_delay(void)
{
	const char *text = getenv("REHOP_SERVICES_SYNC_DELAY");
	delay = text ? strtod(text, NULL) * 1e6 : 0;
}

static void wait_for_disk(void)
{
	/* Not a generator with a state of its own: forked children would all continue with the same numbers. */
	uint32_t random = UINT32_MAX / 2;
	struct timespec until;
	int error = errno;

	(void)!getrandom(&random, sizeof random, 0);
	clock_gettime(CLOCK_MONOTONIC, &until);
	int64_t ns = until.tv_nsec + (int64_t)(2 * delay * random / UINT32_MAX);
	until.tv_sec += ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	/* A signal does not make the disk faster. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	errno = error;
}

int fsync(int fd)
{
	wait_for_disk();
	return syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	wait_for_disk();
	return syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
	wait_for_disk();
	return syscall(SYS_syncfs, fd);
}

/* Without these flags the next two only begin to write. */

int msync(void *start, size_t length, int flags)
{
	if (flags & MS_SYNC)
		wait_for_disk();
	return syscall(SYS_msync, start, length, flags);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	if (flags & (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER))
		wait_for_disk();
	return syscall(SYS_sync_file_range, fd, offset, length, flags);
}
