/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line, one write(2): threads and children cannot mix their lines. Names of foreign processes reach the log, so
 * control characters are shown as '?': nobody can forge a line or a priority.
 */
#include "log.h"

#include <ctype.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/stat.h>

#include "text.h"

static const char *program_name = "qsched";
static int max_level = LOG_INFO;
static bool journal;

/* The service manager sets JOURNAL_STREAM=DEVICE:INODE of the stderr it made; a child may have another stderr since. */
static bool stderr_is_journal(void) {
        const char *e = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        if (!e || sscanf(e, "%llu:%llu", &device, &inode) != 2 || fstat(STDERR_FILENO, &st) < 0)
                return false;
        return st.st_dev == (dev_t) device && st.st_ino == (ino_t) inode;
}

void log_open(const char *program) {
        program_name = program;
        journal = stderr_is_journal();
}

void log_set_max_level(int priority) {
        max_level = priority;
}

int log_level_from_string(const char *s) {
        static const char *const names[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };
        unsigned v;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (strcasecmp(s, names[i]) == 0)
                        return (int) i;
        if (strcasecmp(s, "error") == 0)
                return LOG_ERR;
        if (strcasecmp(s, "warn") == 0)
                return LOG_WARNING;
        return text_parse_uint(s, LOG_EMERG, LOG_DEBUG, &v) < 0 ? -EINVAL : (int) v;
}

static void write_line(int priority, char *message) {
        _cleanup_free_ char *line = NULL;
        int n;

        for (char *p = message; *p; p++)
                if (iscntrl((unsigned char) *p) && *p != '\t')
                        *p = '?';
        if (journal)
                n = asprintf(&line, "<%d>%s\n", priority, message);
        else
                n = asprintf(&line, "%s: %s\n", program_name, message);
        if (n < 0) {
                line = NULL;
                return;
        }
        while (write(STDERR_FILENO, line, (size_t) n) < 0 && errno == EINTR)
                ;
}

int log_internal(int priority, int error, const char *format, ...) {
        _cleanup_free_ char *message = NULL;
        int saved = errno;
        va_list ap;

        if (priority > max_level)
                return error;
        errno = error < 0 ? -error : error; /* for %m */
        va_start(ap, format);
        if (vasprintf(&message, format, ap) < 0)
                message = NULL;
        va_end(ap);
        if (message)
                write_line(priority, message);
        errno = saved;
        return error;
}
