/* The gate: a process of a component that waits at the barrier, and then becomes the program.

   gate PARENT ORDERS ERRORS DIRECTORY STDIN STDOUT STDERR OUT_MODE ERR_MODE NOFILE CPU_S DATA_BYTES
        BRAND PROGRAM ARGUMENT...

   ORDERS and ERRORS are descriptors. An order is four bytes, the least significant first, with the
   number of bytes that follow. These are variables for the environment, NAME=VALUE and a zero byte
   each; an order without any bytes releases the gate. The end of the orders without a release means
   that the starter is gone: the gate ends. What goes wrong is a line on ERRORS, and status 127.

   `koala_agent.starter.blocked.process` does the same where there is no compiler. A limit of 0 is none.
   BRAND is the limit of locks by which the claim's processes are found (`process_tree`). */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<linux/close_range.h>)
#include <linux/close_range.h>
#endif

enum { ORDER_MAX_BYTES = 1 << 22, TEXT_MAX_BYTES = 1000, FAILED = 127, DESCRIPTORS = 4096 };

extern char **environ;
static int errors = -1;

static void fail(const char *what, int why)
{
    char text[TEXT_MAX_BYTES];
    int length = snprintf(text, sizeof text - 1, "%s: %s", what, strerror(why));
    if (length > (int)sizeof text - 2)
        length = sizeof text - 2;
    for (int at = 0; at < length; at++)
        if (text[at] == '\n')
            text[at] = ' ';
    text[length] = '\n';
    if (write(errors, text, length + 1) < 0)
        _exit(FAILED + 1);
    _exit(FAILED);
}

static void open_as(const char *path, int target, int flags, const char *mode)
{
    int opened = open(path, flags, (mode_t)strtol(mode, NULL, 8));
    if (opened < 0)
        fail(path, errno);
    if (opened != target) {
        if (dup2(opened, target) < 0)
            fail(path, errno);
        close(opened);
    }
}

static void set_limit(int kind, rlim_t wanted, int is_bounded)
{
    struct rlimit limit;
    if (wanted == 0)
        return;
    if (getrlimit(kind, &limit) < 0)
        fail("a resource limit", errno);
    limit.rlim_cur = is_bounded && wanted > limit.rlim_max ? limit.rlim_max : wanted;
    if (setrlimit(kind, &limit) < 0)
        fail("a resource limit", errno);
}

/* Take on the brand before anything can be forked. Under a lower limit that fails: then the claim's
   processes are found by their environment only, as the starter has noted. */
static void set_brand(rlim_t brand)
{
    struct rlimit limit = {brand, brand};
    if (brand != 0)
        (void)setrlimit(RLIMIT_LOCKS, &limit);
}

/* Let the program inherit no descriptor but its standard streams. */
static void close_at_exec(void)
{
#if defined SYS_close_range && defined CLOSE_RANGE_CLOEXEC
    if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
#endif
    for (int descriptor = 3; descriptor < DESCRIPTORS; descriptor++)
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

/* Read so many bytes; exit at the end of the starter. */
static void read_all(int descriptor, char *buffer, size_t size)
{
    while (size > 0) {
        ssize_t count = read(descriptor, buffer, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            _exit(FAILED);
        buffer += count;
        size -= count;
    }
}

static void wait_for_release(int orders)
{
    for (;;) {
        unsigned char head[4];
        read_all(orders, (char *)head, sizeof head);
        uint32_t size = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
        if (size == 0)
            return;
        char *text = size <= ORDER_MAX_BYTES ? malloc(size) : NULL;
        if (text == NULL)
            fail("an environment", E2BIG);
        read_all(orders, text, size);
        if (text[size - 1] != '\0')
            fail("an environment", EINVAL);
        for (char *next = text; next < text + size; next += strlen(next) + 1)
            if (putenv(next) != 0)
                fail("an environment", errno);
    }
}

int main(int count, char **words)
{
    if (count < 15)
        return FAILED;
    int orders = atoi(words[2]);
    errors = atoi(words[3]);
    /* Killed with its starter, as it would be unwatched. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(words[1]))
        return FAILED;
    set_brand(strtoull(words[13], NULL, 10));
    setsid();
    close_at_exec();
    if (chdir(words[4]) < 0)
        fail(words[4], errno);
    open_as(words[5], 0, O_RDONLY, "0");
    open_as(words[6], 1, O_WRONLY | O_CREAT | O_APPEND, words[8]);
    open_as(words[7], 2, O_WRONLY | O_CREAT | O_APPEND, words[9]);
    wait_for_release(orders);
    set_limit(RLIMIT_NOFILE, strtoull(words[10], NULL, 10), 0);
    set_limit(RLIMIT_CPU, strtoull(words[11], NULL, 10), 1);
    set_limit(RLIMIT_DATA, strtoull(words[12], NULL, 10), 1);
    execve(words[14], words + 14, environ);
    fail(words[14], errno);
}
