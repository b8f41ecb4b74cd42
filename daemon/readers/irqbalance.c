/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are "setup" (answer: "SLEEP 10 IRQ 41 LOAD 0 DIFF 0 CLASS 4 … BANNED 00000000"; each IRQ is a banned one, BANNED
 * is a mask of CPUs) and "settings ban irqs 41 42" or "… NONE", which have no answer. One request per connection.
 */
#include "daemon/readers/irqbalance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/process.h"

#define ANSWER_MAX (64U << 10)
#define NET_UNIX_MAX (16U << 20)
#define PATIENCE_USEC 500000
#define BAN_WORDS "settings ban irqs "

int irqbalance_parse_setup(const char *text, Bitset *ret) {
        const char *banned = strstr(text, "BANNED");
        _cleanup_(bitset_done) Bitset irqs = BITSET_EMPTY;

        if (strncmp(text, "SLEEP ", 6) != 0 || !banned)
                return -EBADMSG;
        for (const char *p = text; (p = strstr(p, "IRQ ")) && p < banned; p += 4) {
                char *end;
                unsigned long irq = strtoul(p + 4, &end, 10);
                int r = end == p + 4 || irq >= BITSET_MAX ? -EBADMSG : bitset_set(&irqs, (unsigned) irq);

                if (r < 0)
                        return r;
        }
        return bitset_copy(ret, &irqs);
}

/* "irqbalance123.sock" */
static bool is_socket_name(const char *name, pid_t *ret) {
        char digits[16];
        size_t n;

        if (strncmp(name, "irqbalance", 10) != 0)
                return false;
        n = strspn(name + 10, "0123456789");
        if (n == 0 || n >= sizeof(digits) || !streq(name + 10 + n, ".sock"))
                return false;
        memcpy(digits, name + 10, n);
        digits[n] = '\0';
        return text_parse_pid(digits, ret) >= 0;
}

static int open_socket(const char *root, const Irqbalance *b) {
        const struct timeval patience = { .tv_usec = PATIENCE_USEC };
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char *path = a.sun_path + (b->abstract ? 1 : 0);
        size_t room = sizeof(a.sun_path) - 1;
        socklen_t size = sizeof(a);
        int n;

        if (fd < 0)
                return -errno;
        n = b->abstract ? snprintf(path, room, "irqbalance%d.sock", (int) b->pid)
                        : snprintf(path, room, "%s/run/irqbalance/irqbalance%d.sock", strempty(root), (int) b->pid);
        if (n < 0 || (size_t) n >= room)
                return -ENAMETOOLONG;
        if (b->abstract)
                size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) n);
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (connect(fd, (const struct sockaddr *) &a, size) < 0)
                return errno == EAGAIN ? -ETIMEDOUT : -errno;
        return TAKE_FD(fd);
}

static int send_request(int fd, const char *text) {
        const struct ucred self = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
        char control[CMSG_SPACE(sizeof(self))] = {};
        struct iovec iov = { .iov_base = (char *) text, .iov_len = strlen(text) };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        ssize_t n;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_CREDENTIALS;
        c->cmsg_len = CMSG_LEN(sizeof(self));
        memcpy(CMSG_DATA(c), &self, sizeof(self));
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n < 0)
                return errno == EAGAIN ? -ETIMEDOUT : -errno;
        return (size_t) n == iov.iov_len ? 0 : -EIO;
}

/* It closes the connection when it is done with the request. */
static int read_answer(int fd, char **ret) {
        _cleanup_free_ char *answer = calloc(1, ANSWER_MAX);
        size_t n = 0;
        ssize_t k;

        if (!answer)
                return -ENOMEM;
        while (n < ANSWER_MAX - 1 && (k = recv(fd, answer + n, ANSWER_MAX - 1 - n, 0)) != 0) {
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0 && errno == ECONNRESET) /* it closed with some of the request unread */
                        break;
                if (k < 0)
                        return errno == EAGAIN ? -ETIMEDOUT : -errno;
                n += (size_t) k;
        }
        *ret = TAKE_PTR(answer);
        return 0;
}

static int ask(const char *root, const Irqbalance *b, const char *request, char **ret) {
        _cleanup_close_ int fd = open_socket(root, b);
        int r = fd < 0 ? fd : send_request(fd, request);

        return r < 0 ? r : read_answer(fd, ret);
}

int irqbalance_bans(const char *root, const Irqbalance *b, Bitset *ret) {
        _cleanup_free_ char *answer = NULL;
        int r = ask(root, b, "setup", &answer);

        if (r < 0)
                return r;
        if (*answer == '\0') /* closed without a word: not root to it */
                return -EACCES;
        return irqbalance_parse_setup(answer, ret);
}

/* A socket file may outlive its process. It is not connected to for that: irqbalance would log it. */
static bool is_irqbalance(const char *root, pid_t pid) {
        _cleanup_free_ char *path = NULL, *comm = NULL;

        if (asprintf(&path, "%s/proc/%d/comm", strempty(root), (int) pid) < 0) {
                path = NULL;
                return false;
        }
        return read_line_at(AT_FDCWD, path, &comm) >= 0 && streq(comm, "irqbalance");
}

static int find_file(const char *root, Irqbalance *ret) {
        _cleanup_free_ char *path = NULL;
        struct dirent *e;
        int r = 0;
        DIR *d;

        if (asprintf(&path, "%s/run/irqbalance", strempty(root)) < 0)
                return -ENOMEM;
        d = opendir(path);
        if (!d)
                return errno == ENOENT || errno == EACCES ? 0 : -errno;
        while (r == 0 && (e = readdir(d))) {
                Irqbalance b = {};

                if (is_socket_name(e->d_name, &b.pid) && is_irqbalance(root, b.pid)) {
                        *ret = b;
                        r = 1;
                }
        }
        (void) closedir(d);
        return r;
}

static int find_abstract(const char *root, Irqbalance *ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        if (asprintf(&path, "%s/proc/net/unix", strempty(root)) < 0)
                return -ENOMEM;
        r = read_file_at(AT_FDCWD, path, NET_UNIX_MAX, &text, NULL);
        if (r < 0)
                return 0; /* its absence says nothing of irqbalance */
        for (char *p = text; (p = strstr(p, " @irqbalance"));) {
                Irqbalance b = { .abstract = true };
                char *end = strchrnul(p, '\n'), last = *end;
                bool found;

                *end = '\0';
                found = is_socket_name(p + 2, &b.pid) && is_irqbalance(root, b.pid);
                *end = last;
                if (found) {
                        *ret = b;
                        return 1;
                }
                p = end;
        }
        return 0;
}

int irqbalance_find(const char *root, bool thorough, Irqbalance *ret) {
        int r = find_file(root, ret);

        return r != 0 || !thorough ? r : find_abstract(root, ret);
}

int irqbalance_running(const char *root, pid_t *ret) {
        _cleanup_free_ char *path = NULL;
        _cleanup_free_ int *pids = NULL;
        size_t n = 0;
        int r;

        if (asprintf(&path, "%s/proc", strempty(root)) < 0)
                return -ENOMEM;
        r = proc_list(AT_FDCWD, path, &pids, &n);
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (is_irqbalance(root, pids[i])) {
                        *ret = pids[i];
                        return 1;
                }
        return r;
}

/* The request for these bans, with as many of `ours` as fit below the limit; *ret_sent: what it says. */
static int format_bans(const Bitset *theirs, const Bitset *ours, size_t limit, char **ret, Bitset *ret_sent) {
        const Bitset *const lists[] = { theirs, ours };
        _cleanup_free_ char *text = NULL;
        size_t size, n = 0;
        FILE *f = open_memstream(&text, &size);
        int r = 0;

        if (!f)
                return -ENOMEM;
        bitset_zero(ret_sent);
        fputs(BAN_WORDS, f);
        for (size_t i = 0; i < ELEMENTSOF(lists); i++)
                BITSET_FOREACH (irq, lists[i]) {
                        char number[16];
                        size_t k = (size_t) snprintf(number, sizeof(number), n ? " %d" : "%d", irq);

                        if (r < 0 || bitset_test(ret_sent, (unsigned) irq) || n + k > limit)
                                continue;
                        r = bitset_set(ret_sent, (unsigned) irq);
                        fputs(number, f);
                        n += k;
                }
        if (n == 0)
                fputs("NONE", f);
        if (fclose(f) == EOF)
                r = -ENOMEM;
        if (r >= 0)
                *ret = TAKE_PTR(text);
        return r;
}

/* What others banned must fit whole: any request else would lift a ban of theirs. */
static int fits(const Bitset *theirs, size_t limit) {
        _cleanup_(bitset_done) Bitset none = BITSET_EMPTY, sent = BITSET_EMPTY;
        _cleanup_free_ char *request = NULL;
        int r = format_bans(theirs, &none, limit, &request, &sent);

        return r < 0 ? r : bitset_equal(theirs, &sent);
}

static int send_bans(const char *root, const Irqbalance *b, const char *request, Bitset *ret) {
        _cleanup_free_ char *answer = NULL;
        int r = ask(root, b, request, &answer);

        return r < 0 ? r : irqbalance_bans(root, b, ret);
}

int irqbalance_ban(const char *root, const Irqbalance *b, const Bitset *add, const Bitset *remove, Bitset *ret) {
        /* Bytes after the words that every version takes, by size of its buffer. */
        static const size_t limits[] = { 480, 250 };
        _cleanup_(bitset_done) Bitset theirs = BITSET_EMPTY, now = BITSET_EMPTY, sent = BITSET_EMPTY;
        int r = irqbalance_bans(root, b, &theirs);

        if (r < 0)
                return r;
        if (bitset_subset(add, &theirs) && !bitset_intersects(remove, &theirs))
                return bitset_copy(ret, &theirs);
        bitset_andnot(&theirs, remove);
        r = fits(&theirs, limits[ELEMENTSOF(limits) - 1]);
        if (r <= 0)
                return r < 0 ? r : -E2BIG;
        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                _cleanup_free_ char *request = NULL;

                r = format_bans(&theirs, add, limits[i], &request, &sent);
                if (r >= 0)
                        r = send_bans(root, b, request, &now);
                if (r < 0)
                        return r;
                if (bitset_equal(&now, &sent))
                        break;
        }
        r = bitset_copy(ret, &now);
        return r < 0 ? r : !bitset_subset(add, &now);
}
