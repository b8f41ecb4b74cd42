/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/readers/machine-internal.h"
#include <errno.h>
int machine_check_xml(const char *label, const char *xml, size_t size, char **ret, size_t *ret_size, char **ret_message) {
        *ret = strndup(xml, size);
        *ret_size = size;
        return *ret ? 0 : -ENOMEM;
}
int machine_guard(const char *label, int (*try)(void *userdata), void *userdata, char **ret_message) {
        return 0;
}
