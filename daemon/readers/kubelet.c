/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubelet's CPU manager, from the state it keeps in /var/lib/kubelet/cpu_manager_state:
 *   {"policyName":"static","defaultCpuSet":"0-3,8-15","entries":{"POD-UID":{"container":"4-7"}},"checksum":1}
 * (before 1.18: "entries":{"CONTAINER-ID":"4-7"}). With the static policy, entries are given to guaranteed pods, and the
 * shared pool (defaultCpuSet) is where the next ones will be taken from, except what reservedSystemCPUs in kubelet's
 * config.yaml keeps for the system. With policy "none" kubelet hands out no CPUs and nothing is reserved.
 */
#include "daemon/readers/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>

#include "common/fileio.h"
#include "common/text.h"

#define KUBELET_FILE_MAX (4U << 20)

static int add_entries(json_t *entries, Bitset *given) {
        const char *key;
        json_t *v;
        int r;

        json_object_foreach (entries, key, v) {
                Bitset b = BITSET_EMPTY;

                if (json_is_object(v))
                        r = add_entries(v, given);
                else {
                        r = json_is_string(v) ? bitset_parse(json_string_value(v), &b) : -EBADMSG;
                        if (r >= 0)
                                r = bitset_or(given, &b);
                        bitset_done(&b);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The one key of config.yaml that matters here: a plain scalar at the top level, perhaps in quotes. */
static void read_reserved_system_cpus(const char *yaml, Bitset *system) {
        static const char key[] = "reservedSystemCPUs:";

        for (const char *p = yaml; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
                if (strncmp(p, key, sizeof(key) - 1) != 0)
                        continue;
                p += sizeof(key) - 1;
                p += strspn(p, " \t\"'");
                _cleanup_free_ char *list = strndup(p, strspn(p, "0123456789,-"));
                if (list)
                        (void) bitset_parse(list, system);
                return;
        }
}

static int format_reason(const Bitset *given, const Bitset *pool, char **ret) {
        _cleanup_free_ char *g = NULL, *p = NULL;
        int r;

        r = bitset_format(given, &g);
        if (r >= 0)
                r = bitset_format(pool, &p);
        if (r < 0)
                return r;
        if (!*g)
                r = asprintf(ret, "kubelet's static CPU manager may give CPUs %s to guaranteed pods", p);
        else if (!*p)
                r = asprintf(ret, "kubelet's static CPU manager has given CPUs %s to guaranteed pods", g);
        else
                r = asprintf(ret, "kubelet's static CPU manager has given CPUs %s to guaranteed pods and may give %s",
                             g, p);
        return r < 0 ? -ENOMEM : 0;
}

int kubelet_parse_state(const char *state, const char *kubelet_config, Bitset *ret, char **ret_reason) {
        _cleanup_(json_decrefp) json_t *root = json_loads(state, 0, NULL);
        Bitset given = BITSET_EMPTY, pool = BITSET_EMPTY, system = BITSET_EMPTY;
        const char *policy, *shared;
        int r = 0;

        policy = json_string_value(json_object_get(root, "policyName"));
        if (!policy)
                return -EBADMSG;
        if (!streq(policy, "static"))
                return 0;
        shared = json_string_value(json_object_get(root, "defaultCpuSet"));
        if (shared)
                r = bitset_parse(shared, &pool);
        if (r >= 0)
                r = add_entries(json_object_get(root, "entries"), &given);
        if (kubelet_config)
                read_reserved_system_cpus(kubelet_config, &system);
        bitset_andnot(&pool, &system);
        bitset_andnot(&pool, &given);
        if (r >= 0 && !(bitset_isempty(&pool) && bitset_isempty(&given)))
                r = format_reason(&given, &pool, ret_reason);
        if (r >= 0)
                r = bitset_or(&given, &pool);
        if (r >= 0) {
                bitset_done(ret);
                *ret = given;
                given = BITSET_EMPTY;
        }
        bitset_done(&given);
        bitset_done(&pool);
        bitset_done(&system);
        return r < 0 && r != -ENOMEM ? -EBADMSG : r;
}

int kubelet_reserved(const char *root, Bitset *ret, char **ret_reason) {
        _cleanup_free_ char *state_path = NULL, *config_path = NULL, *state = NULL, *config = NULL;
        int r;

        if (asprintf(&state_path, "%s/var/lib/kubelet/cpu_manager_state", root) < 0)
                return state_path = NULL, -ENOMEM;
        if (asprintf(&config_path, "%s/var/lib/kubelet/config.yaml", root) < 0)
                return config_path = NULL, -ENOMEM;
        r = read_file_at(AT_FDCWD, state_path, KUBELET_FILE_MAX, &state, NULL);
        if (r == -ENOENT || r == -ENOTDIR)
                return 0;
        if (r < 0)
                return r;
        (void) read_file_at(AT_FDCWD, config_path, KUBELET_FILE_MAX, &config, NULL);
        return kubelet_parse_state(state, config, ret, ret_reason);
}
