/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log of the daemon and messages of the tools: one line to stderr, with the sd-daemon(3) "<N>" prefix when stderr is
 * the journal. Only daemon/main, daemon/manager, daemon/bus and ctl verbs log; readers, policy and common return.
 * Each *_errno form returns the error it was given, so `return log_error_errno(r, "Failed to …: %m")` logs and leaves.
 */
#pragma once

#include <errno.h>
#include <syslog.h>

#include "macro.h"

void log_open(const char *program);   /* name put before each line on a terminal; detects the journal */
void log_set_max_level(int priority); /* syslog priority; default LOG_INFO */
int log_level_from_string(const char *s);

int log_internal(int priority, int error, const char *format, ...) _printf_(3, 4);

#define log_full_errno(priority, error, ...) log_internal(priority, error, __VA_ARGS__)
#define log_error_errno(e, ...) log_internal(LOG_ERR, e, __VA_ARGS__)
#define log_warning_errno(e, ...) log_internal(LOG_WARNING, e, __VA_ARGS__)
#define log_error(...) ((void) log_internal(LOG_ERR, 0, __VA_ARGS__))
#define log_warning(...) ((void) log_internal(LOG_WARNING, 0, __VA_ARGS__))
#define log_notice(...) ((void) log_internal(LOG_NOTICE, 0, __VA_ARGS__))
#define log_info(...) ((void) log_internal(LOG_INFO, 0, __VA_ARGS__))
#define log_debug(...) ((void) log_internal(LOG_DEBUG, 0, __VA_ARGS__))
#define log_oom() log_internal(LOG_ERR, -ENOMEM, "Out of memory")
