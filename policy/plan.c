/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as values: their life, and the JSON object that every interface shows. */
#include "policy/plan.h"

#include <errno.h>

#include "common/json.h"
#include "common/text.h"

static void plan_task_done(PlanTask *t) {
        free(t->name);
        free(t->job);
        free(t->children);
        strv_free(t->devices);
        strv_free(t->reasons);
        bitset_done(&t->cpus);
        bitset_done(&t->mems);
        bitset_done(&t->irq_cpus);
        bitset_done(&t->cpus_before);
        bitset_done(&t->mems_before);
}

Plan *plan_free(Plan *p) {
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_tasks; i++)
                plan_task_done(p->tasks + i);
        free(p->tasks);
        bitset_done(&p->housekeeping);
        strv_free(p->messages);
        free(p);
        return NULL;
}

const PlanTask *plan_task(const Plan *p, const char *name) {
        for (size_t i = 0; i < p->n_tasks; i++)
                if (streq(p->tasks[i].name, name))
                        return p->tasks + i;
        return NULL;
}

/* Six digits behind the point: what the model resolves; -0 is 0. */
static json_t *json_cost(double x) {
        return isfinite(x) ? json_real(round(x * 1e6) / 1e6 + 0.0) : json_null();
}

static json_t *json_energy(const PlanEnergy *e) {
        json_t *terms, *o;

        if (!e->known)
                return json_null();
        o = json_object();
        terms = json_object();
        for (size_t i = 0; placement_terms[i].name; i++)
                if (json_object_set_new(terms, placement_terms[i].name, json_cost(e->terms[i])) < 0)
                        goto fail;
        if (json_object_set_new(o, "total", json_cost(e->total)) < 0)
                goto fail;
        if (json_object_set_new(o, "terms", terms) < 0) {
                terms = NULL; /* set_new took it, also when it failed */
                goto fail;
        }
        return o;
fail:
        json_decref(terms);
        json_decref(o);
        return NULL;
}

static json_t *json_task(const PlanTask *t) {
        bool running = t->process.pid > 0;
        const struct {
                const char *key;
                json_t *value;
        } members[] = {
                { "name", json_string(t->name) },
                { "job", json_string(t->job) },
                { "pid", running ? json_integer(t->process.pid) : json_null() },
                { "device", json_strv(t->devices) },
                { "cpus", json_bitset(&t->cpus) },
                { "mems", json_bitset(&t->mems) },
                { "irq_cpus", json_bitset(&t->irq_cpus) },
                { "cpus_before", running ? json_bitset(&t->cpus_before) : json_null() },
                { "mems_before", running ? json_bitset(&t->mems_before) : json_null() },
                { "changed", json_boolean(t->changed) },
                { "owned", json_boolean(t->owned) },
                { "fixed", json_boolean(t->fixed) },
                { "energy", json_energy(&t->energy) },
                { "reasons", json_strv(t->reasons) },
        };
        json_t *o = json_object();
        bool failed = false;

        for (size_t i = 0; i < ELEMENTSOF(members); i++)
                failed = json_object_set_new(o, members[i].key, members[i].value) < 0 || failed;
        if (!failed)
                return o;
        json_decref(o);
        return NULL;
}

int plan_to_json(const Plan *p, json_t **ret) {
        json_t *tasks = json_array(), *o = json_object();
        bool failed = false;

        for (size_t i = 0; i < p->n_tasks; i++)
                failed = json_array_append_new(tasks, json_task(p->tasks + i)) < 0 || failed;

        const struct {
                const char *key;
                json_t *value;
        } members[] = {
                { "feasible", json_boolean(p->feasible) },
                { "changed", json_boolean(p->changed) },
                { "solver", json_string(strempty(p->solver)) },
                { "seed", json_integer((json_int_t) p->seed) },
                { "elapsed_us", json_integer((json_int_t) p->elapsed_us) },
                { "energy", json_energy(&p->energy) },
                { "energy_before", json_energy(&p->energy_before) },
                { "lower_bound", json_cost(p->lower_bound) },
                { "proved", json_boolean(p->optimal) },
                { "tasks", tasks },
                { "housekeeping", json_bitset(&p->housekeeping) },
                { "messages", json_strv(p->messages) },
        };
        for (size_t i = 0; i < ELEMENTSOF(members); i++)
                failed = json_object_set_new(o, members[i].key, members[i].value) < 0 || failed;
        if (failed) {
                json_decref(o);
                return -ENOMEM;
        }
        *ret = o;
        return 0;
}
