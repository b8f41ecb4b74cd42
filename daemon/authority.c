/* SPDX-License-Identifier: Apache-2.0 */
/* org.freedesktop.PolicyKit1.Authority.CheckAuthorization as an asynchronous question; see authority.h. */
#include <errno.h>

#include "common/text.h"
#include "daemon/authority.h"

/* A person may have to find a password first. */
#define POLKIT_TIMEOUT_USEC (120U * 1000000U)

typedef struct Question {
        AuthorityReply reply;
        void *userdata;
        uid_t uid;
        char *action;
} Question;

static void question_free(void *userdata) {
        Question *q = userdata;

        free(q->action);
        free(q);
}

int authority_caller(sd_bus_message *m, uid_t *ret_uid, pid_t *ret_pid) {
        _cleanup_(sd_bus_creds_unrefp) sd_bus_creds *creds = NULL;
        int r;

        r = sd_bus_query_sender_creds(m, SD_BUS_CREDS_EUID | SD_BUS_CREDS_PID, &creds);
        if (r < 0)
                return r;
        r = sd_bus_creds_get_euid(creds, ret_uid);
        if (r < 0)
                return r;
        if (sd_bus_creds_get_pid(creds, ret_pid) < 0)
                *ret_pid = 0;
        return 0;
}

static bool is_absent(const sd_bus_error *e) {
        static const char *const names[] = {
                SD_BUS_ERROR_SERVICE_UNKNOWN,          SD_BUS_ERROR_NAME_HAS_NO_OWNER,
                "org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.systemd1.LoadFailed",
                "org.freedesktop.systemd1.UnitMasked",
        };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (sd_bus_error_has_name(e, names[i]))
                        return true;
        return false;
}

static int on_answer(sd_bus_message *answer, void *userdata, sd_bus_error *ret_error) {
        const sd_bus_error *e = sd_bus_message_get_error(answer);
        Question *q = userdata;
        _cleanup_free_ char *sentence = NULL;
        int granted = 0, challenge = 0;

        if (e && is_absent(e)) {
                q->reply(q->userdata, AUTHORITY_CONFINED, NULL);
                return 0;
        }
        if (e)
                (void) text_fail(0, &sentence, "polkit could not be asked about %s (%s): only root may", q->action,
                                 strempty(e->message));
        else if (sd_bus_message_enter_container(answer, 'r', "bba{ss}") < 0 ||
                 sd_bus_message_read(answer, "bb", &granted, &challenge) < 0) {
                granted = 0;
                (void) text_fail(0, &sentence, "polkit's answer about %s is not understood: only root may", q->action);
        } else
                (void) text_fail(
                        0, &sentence,
                        challenge ? "polkit wants authentication for %s, and user %u was not or could not be asked"
                                  : "polkit does not allow %s to user %u",
                        q->action, (unsigned) q->uid);
        q->reply(q->userdata, granted ? AUTHORITY_GRANTED : AUTHORITY_DENIED, sentence);
        return 0;
}

static int polkit_ask(sd_bus_message *m, const char *action, Question *q, sd_bus_slot **slot) {
        _cleanup_(sd_bus_message_unrefp) sd_bus_message *ask = NULL;
        sd_bus *bus = sd_bus_message_get_bus(m);
        int r;

        r = sd_bus_message_new_method_call(bus, &ask, "org.freedesktop.PolicyKit1",
                                           "/org/freedesktop/PolicyKit1/Authority",
                                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization");
        if (r >= 0)
                r = sd_bus_message_append(ask, "(sa{sv})sa{ss}us", "system-bus-name", 1, "name", "s",
                                          sd_bus_message_get_sender(m), action, 0,
                                          sd_bus_message_get_allow_interactive_authorization(m) > 0, "");
        if (r >= 0)
                r = sd_bus_call_async(bus, slot, ask, on_answer, q, POLKIT_TIMEOUT_USEC);
        if (r >= 0)
                r = sd_bus_slot_set_destroy_callback(*slot, question_free);
        return r;
}

int authority_check(sd_bus_message *m, uid_t uid, const char *action, AuthorityReply reply, void *userdata,
                    sd_bus_slot **slot) {
        Question *q;
        int r;

        if (uid == 0 || uid == geteuid()) {
                reply(userdata, AUTHORITY_GRANTED, NULL);
                return 0;
        }
        q = calloc(1, sizeof(*q));
        if (!q)
                return -ENOMEM;
        *q = (Question){ .reply = reply, .userdata = userdata, .uid = uid, .action = strdup(action) };
        r = q->action ? polkit_ask(m, action, q, slot) : -ENOMEM;
        if (r < 0)
                question_free(q);
        return r < 0 ? r : 0;
}
