/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job text, then a NUL byte, then its traffic matrix. A job that parses must parse again from Job.text into the same,
 * and its traffic must be computable for its own number of ranks.
 */
#include "daemon/readers/jobfile.h"

#include "tests/fuzz/fuzz.h"

static void check_job(const Job *j) {
        unsigned n = job_count(j, NULL);

        must(name_is_valid(j->name) && j->priority <= 100);
        must(n >= 1 && n <= JOB_RANKS_MAX);
        for (size_t i = 0; i < j->n_ranks; i++) {
                const Ranks *r = &j->ranks[i];

                must(r->min_cpus >= 1 && (r->cpus == 0 || r->cpus >= r->min_cpus));
                must(!r->device_kind || (r->n_devices >= 1 && !r->device_names));
                must(!r->match || r->match->pattern || r->match->n_pids > 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
        size_t length = nul ? (size_t) (nul - data) : size;
        _cleanup_free_ char *matrix = NULL, *message = NULL;
        _cleanup_free_ double *traffic = NULL;
        _cleanup_(job_freep) Job *job = NULL, *again = NULL;

        if (nul)
                matrix = strndup((const char *) nul + 1, size - length - 1);
        if (job_parse("fuzz.job", (const char *) data, length, matrix, &job, &message) < 0) {
                must(!job && message && !strchr(message, '\n'));
                return 0;
        }
        check_job(job);
        must(job_parse("other", job->text, strlen(job->text), job->matrix_text, &again, &message) == 0);
        must(streq(job->name, again->name) && streq(job->text, again->text) && job->n_ranks == again->n_ranks);
        if (job_count(job, NULL) <= 64)
                (void) job_traffic(job, job_count(job, NULL), &traffic, &message);
        return 0;
}
