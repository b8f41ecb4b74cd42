/* SPDX-License-Identifier: Apache-2.0 */
/* See pins.h. Workers rename themselves, so the server above them tells whether they are vLLM's. */
#include "daemon/readers/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/utsname.h>

#include "common/fileio.h"
#include "common/text.h"

#define ANCESTORS_MAX 16

#define OFF(...) ((const char *const[]){ __VA_ARGS__, NULL })

const Pin pins[] = {
        /* variable, switch when another, what means off, who reads it, what to do */
        { "CPU_AFFINITY_CONF", NULL, OFF("0", "mode:0"), "torch_npu", "Unset it, or CPU_AFFINITY_CONF=0" },
        { "SGLANG_SET_CPU_AFFINITY", NULL, OFF("0", "false", "no"), "SGLang", "SGLANG_SET_CPU_AFFINITY=0" },
        { "BIND_CPU", NULL, OFF("0"), "MindIE's ATB models", "BIND_CPU=0" },
        { "OMP_PROC_BIND", NULL, OFF("false"), "OpenMP", "Unset it, or OMP_PROC_BIND=false" },
        { "OMP_PLACES", "OMP_PROC_BIND", OFF("false"), "OpenMP", "Unset it, or OMP_PROC_BIND=false" },
        { "GOMP_CPU_AFFINITY", "OMP_PROC_BIND", OFF("false"), "GCC's OpenMP", "Unset it" },
        { "KMP_AFFINITY", NULL, OFF("disabled", "none"), "LLVM's and Intel's OpenMP", "KMP_AFFINITY=disabled" },
        { "OMPI_MCA_orte_bound_at_launch", NULL, OFF("0", "false"), "Open MPI's mpirun", "mpirun --bind-to none" },
        { "OMPI_MCA_hwloc_base_binding_policy", NULL, OFF("none"), "Open MPI",
          "OMPI_MCA_hwloc_base_binding_policy=none, or mpirun --bind-to none" },
        { "PRTE_MCA_hwloc_default_binding_policy", NULL, OFF("none"), "Open MPI 5", "mpirun --bind-to none" },
        { "MV2_CPU_BINDING_POLICY", "MV2_ENABLE_AFFINITY", OFF("0"), "MVAPICH2", "MV2_ENABLE_AFFINITY=0" },
        { "MV2_CPU_MAPPING", "MV2_ENABLE_AFFINITY", OFF("0"), "MVAPICH2", "MV2_ENABLE_AFFINITY=0" },
        { "MV2_COMM_WORLD_RANK", "MV2_ENABLE_AFFINITY", OFF("0"), "MVAPICH2 (it pins unless told not to)",
          "MV2_ENABLE_AFFINITY=0" },
        { "I_MPI_PIN_DOMAIN", "I_MPI_PIN", OFF("0", "off", "no", "disable"), "Intel MPI", "I_MPI_PIN=0" },
        { "I_MPI_PIN_PROCESSOR_LIST", "I_MPI_PIN", OFF("0", "off", "no", "disable"), "Intel MPI", "I_MPI_PIN=0" },
        { "SLURM_CPU_BIND", NULL, OFF("none"), "Slurm", "srun --cpu-bind=none" },
};

const size_t pins_n = ELEMENTSOF(pins);

static bool is_off_word(const char *word, size_t n, const char *const *off) {
        for (; off && *off; off++)
                if (strlen(*off) == n && strncasecmp(word, *off, n) == 0)
                        return true;
        return false;
}

bool pin_is_off(const char *value, const char *const *off) {
        for (const char *p = value; *p;) {
                size_t n = strcspn(p, ",;");

                if (is_off_word(p, n, off))
                        return true;
                p += n + (p[n] != '\0');
        }
        return false;
}

bool pin_is_set(const Pin *pin, const char *block, size_t size, const char **ret_value) {
        const char *value = proc_environ_get(block, size, pin->variable);
        const char *switched = pin->switched_by ? proc_environ_get(block, size, pin->switched_by) : value;

        *ret_value = value;
        return value && *value && !(switched && pin_is_off(switched, pin->off));
}

int pin_of_process(int proc_fd, pid_t pid, const Pin **ret) {
        _cleanup_free_ char *block = NULL;
        size_t size = 0;
        int r = proc_read_text(proc_fd, pid, "environ", PIN_ENVIRON_MAX, &block, &size);

        *ret = NULL;
        for (size_t i = 0; r >= 0 && i < pins_n; i++) {
                const char *value;

                if (pin_is_set(&pins[i], block, size, &value)) {
                        *ret = &pins[i];
                        break;
                }
        }
        return r < 0 ? r : 0;
}

int pin_parse_binding_switch(const char *cmdline) {
        const char *p = cmdline;
        int r = -ENOENT;

        while ((p = strstr(p, "enable_cpu_binding"))) {
                p += strlen("enable_cpu_binding");
                p += strspn(p, "\"'\\:= \t");
                if (strncasecmp(p, "false", 5) == 0 || *p == '0')
                        r = 0;
                else if (strncasecmp(p, "true", 4) == 0 || *p == '1')
                        r = 1;
        }
        return r;
}

/* Is this vLLM, and what does the switch say there? */
bool pin_is_vllm(int proc_fd, pid_t pid, int *ret_switch) {
        bool vllm = false;

        *ret_switch = -ENOENT;
        for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
                _cleanup_free_ char *cmdline = NULL;
                ProcStat s;
                int r;

                if (proc_read_cmdline(proc_fd, pid, &cmdline) >= 0) {
                        vllm = vllm || strcasestr(cmdline, "vllm");
                        r = pin_parse_binding_switch(cmdline);
                        if (*ret_switch == -ENOENT)
                                *ret_switch = r;
                }
                if (proc_read_stat(proc_fd, pid, &s) < 0)
                        break;
                pid = s.parent;
        }
        return vllm;
}

bool pin_arch_is_x86(const char *root) {
        _cleanup_free_ char *path = NULL, *arch = NULL;
        struct utsname u;

        if (asprintf(&path, "%s/proc/sys/kernel/arch", strempty(root)) < 0) {
                path = NULL;
                return false;
        }
        if (read_line_at(AT_FDCWD, path, &arch) >= 0) /* since 6.1 */
                return streq(arch, "x86_64");
        return (!root || !*root) && uname(&u) == 0 && streq(u.machine, "x86_64");
}
