/* SPDX-License-Identifier: Apache-2.0 */
/* qsched.job(5) text -> Job. The table of keys here is also what the manual and the completion are checked against. */
#pragma once

#include "common/ini.h"
#include "policy/job.h"

extern const ConfigItem job_items[]; /* sections Job, Ranks, Traffic */

/* label: for messages and the default name. matrix_text: content of what Matrix= names, or NULL. -EBADMSG + sentence */
int job_parse(const char *label, const char *text, size_t size, const char *matrix_text, Job **ret, char **ret_message);
/* Reads the file ("-": standard input) and the matrix it names (relative to the job file). */
int job_load(const char *path, Job **ret, char **ret_message);
