/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of model files that have to be read. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/text.h"
#include "policy/formats/format.h"

/* format NULL: detected. */
static inline Instance *must_read(const char *format, const char *text) {
        _cleanup_free_ char *message = NULL;
        Instance *in = NULL;
        int r = instance_read(format ? format_by_name(format) : NULL, "file", text, strlen(text), &in, &message);

        if (r < 0)
                fail_msg("%d: %s\n%s", r, strempty(message), text);
        assert_null(message);
        return in;
}
