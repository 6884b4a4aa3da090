/* A browser without a window, asked through its debugging pipe: NUL-ended JSON messages on descriptors 3 and 4.
 *
 * What:    Chromium, one page at a time; what it fetched and complained of is noted.
 * Flow:    browser_start(); browser_show(url); browser_ask(expression); browser_stop(). Every answer within 60 s, or
 *          the test fails.
 * Owner:   answers belong to the caller.
 * Extend:  another question is another method of the DevTools protocol for browser_call().
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "tests/unit/tap.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct browser {
    pid_t pid;
    int to, from, serial, loaded, dead;
    char session[80];
    struct rp_buf in;
    /* since the last browser_show(): requests but for the page itself, and console messages of level error */
    int fetched, complaints;
    char first[300];         /* of them */
};

static const char *browser_program(void)
{
    static const char *const programs[] = {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (access(programs[i], X_OK) == 0)
            return programs[i];
    return NULL;
}

static int browser_start(struct browser *b, const char *profile)
{
    int in[2], out[2];
    *b = (struct browser){0};
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return -1;
    RP_FREE char *dir = rp_asprintf("--user-data-dir=%s", profile);
    b->pid = fork();
    if (b->pid == 0) {
        int null = open("/dev/null", O_RDWR), r = fcntl(in[0], F_DUPFD, 10), w = fcntl(out[1], F_DUPFD, 10);
        setpgid(0, 0);
        dup2(null, 0), dup2(null, 1), dup2(null, 2), dup2(r, 3), dup2(w, 4);
        execl(browser_program(), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
              "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
              "--disable-component-update", "--disable-sync", "--disable-extensions", "--remote-debugging-pipe", dir,
              "about:blank", (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    b->to = in[1], b->from = out[0];
    return b->pid < 0 ? -1 : 0;
}

static void browser_note(struct browser *b, int *counter, const json_t *what)
{
    RP_BUF text = {0};
    rp_json_write_line(&text, what);
    if (!b->fetched && !b->complaints)
        snprintf(b->first, sizeof b->first, "%.290s", rp_buf_text(&text));
    ++*counter;
}

static void browser_event(struct browser *b, const json_t *m)
{
    const char *method = json_string_value(json_object_get(m, "method"));
    const json_t *p = json_object_get(m, "params");
    if (!method)
        return;
    if (strcmp(method, "Page.loadEventFired") == 0)
        b->loaded = 1;
    if (strcmp(method, "Network.requestWillBeSent") == 0 &&
        strcmp(json_string_value(json_object_get(p, "type")) ? json_string_value(json_object_get(p, "type")) : "",
               "Document") != 0)
        browser_note(b, &b->fetched, p);
    if (strcmp(method, "Runtime.exceptionThrown") == 0 || strcmp(method, "Page.javascriptDialogOpening") == 0)
        browser_note(b, &b->complaints, p);
    const char *level = json_string_value(json_object_get(json_object_get(p, "entry"), "level"));
    if (strcmp(method, "Log.entryAdded") == 0 && level && strcmp(level, "error") == 0)
        browser_note(b, &b->complaints, p);
}

/* The next message, or NULL after 60 s of silence. */
static json_t *browser_read(struct browser *b)
{
    char chunk[65536];
    struct rp_err err;
    while (!b->dead) {
        char *end = b->in.size ? memchr(b->in.data, 0, b->in.size) : NULL;
        if (end) {
            size_t n = (size_t)(end - b->in.data);
            json_t *m = rp_json_parse(b->in.data, n, "browser", &err);
            memmove(b->in.data, end + 1, b->in.size - n - 1);
            b->in.size -= n + 1;
            CHECK(m, "%s", err.msg);
            return m;
        }
        struct pollfd p = {.fd = b->from, .events = POLLIN};
        ssize_t got = poll(&p, 1, 60000) > 0 ? read(b->from, chunk, sizeof chunk) : 0;
        if (got <= 0)
            b->dead = 1;
        else
            rp_buf_add(&b->in, chunk, (size_t)got);
    }
    return NULL;
}

/* The result of a method; params may be NULL and are taken. */
static json_t *browser_call(struct browser *b, const char *method, json_t *params)
{
    RP_BUF text = {0};
    int id = ++b->serial;
    RP_JSON *m = json_pack("{s:i, s:s, s:o*}", "id", id, "method", method, "params", params);
    if (*b->session)
        json_object_set_new(m, "sessionId", json_string(b->session));
    rp_json_write_line(&text, m);
    text.data[text.size - 1] = 0;
    if (rp_write_all(b->to, text.data, text.size) < 0)
        b->dead = 1;
    for (;;) {
        RP_JSON *answer = browser_read(b);
        if (!answer) {
            CHECK(0, "the browser does not answer to %s", method);
            return NULL;
        }
        if (json_integer_value(json_object_get(answer, "id")) != id) {
            browser_event(b, answer);
            continue;
        }
        json_t *result = json_object_get(answer, "result");
        CHECK(result, "%s: %s", method,
              json_string_value(json_object_get(json_object_get(answer, "error"), "message")));
        return json_incref(result);
    }
}

/* Does it answer at all? Without rights or libraries that it wants it ends at once. */
static int browser_lives(struct browser *b)
{
    static const char hello[] = "{\"id\":1,\"method\":\"Browser.getVersion\"}";
    b->serial = 1;
    signal(SIGPIPE, SIG_IGN);
    RP_JSON *answer = rp_write_all(b->to, hello, sizeof hello) < 0 ? NULL : browser_read(b);
    return answer != NULL;
}

static int browser_attach(struct browser *b)
{
    static const char *const enable[] = {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable",
                                         "Accessibility.enable"};
    RP_JSON *target = browser_call(b, "Target.createTarget", json_pack("{s:s}", "url", "about:blank"));
    if (!target)
        return -1;
    RP_JSON *to = browser_call(
        b, "Target.attachToTarget",
        json_pack("{s:s, s:b}", "targetId", json_string_value(json_object_get(target, "targetId")), "flatten", 1));
    const char *session = json_string_value(json_object_get(to, "sessionId"));
    if (!session)
        return -1;
    snprintf(b->session, sizeof b->session, "%s", session);
    for (size_t i = 0; i < sizeof enable / sizeof *enable; i++)
        json_decref(browser_call(b, enable[i], NULL));
    return b->dead ? -1 : 0;
}

/* In a window of that width, by day or by night; returns when it is loaded. */
static void browser_show(struct browser *b, const char *url, int width, int dark)
{
    json_decref(browser_call(
        b, "Emulation.setDeviceMetricsOverride",
        json_pack("{s:i, s:i, s:i, s:b}", "width", width, "height", 900, "deviceScaleFactor", 1, "mobile", 0)));
    /* or pictures lose the right margin */
    json_decref(browser_call(b, "Emulation.setScrollbarsHidden", json_pack("{s:b}", "hidden", 1)));
    json_decref(browser_call(
        b, "Emulation.setEmulatedMedia",
        json_pack("{s:[{s:s, s:s}]}", "features", "name", "prefers-color-scheme", "value", dark ? "dark" : "light")));
    b->fetched = b->complaints = b->loaded = 0;
    *b->first = 0;
    json_decref(browser_call(b, "Page.navigate", json_pack("{s:s}", "url", url)));
    while (!b->loaded && !b->dead) {
        RP_JSON *m = browser_read(b);
        browser_event(b, m);
    }
}

/* The value of an expression; the page's policy does not bind what asks from outside. */
static json_t *browser_ask(struct browser *b, const char *expression)
{
    RP_JSON *answer =
        browser_call(b, "Runtime.evaluate", json_pack("{s:s, s:b}", "expression", expression, "returnByValue", 1));
    const json_t *thrown = json_object_get(answer, "exceptionDetails");
    CHECK(!thrown, "%s", json_string_value(json_object_get(json_object_get(thrown, "exception"), "description")));
    return json_incref(json_object_get(json_object_get(answer, "result"), "value"));
}

/* The whole page as PNG into a file. */
static __attribute__((unused)) void browser_picture(struct browser *b, const char *path)
{
    struct rp_err err;
    RP_BUF png = {0};
    RP_JSON *shot =
        browser_call(b, "Page.captureScreenshot", json_pack("{s:s, s:b}", "format", "png", "captureBeyondViewport", 1));
    const char *data = json_string_value(json_object_get(shot, "data"));
    int failed =
        !data || rp_unbase64(&png, data, strlen(data)) < 0 || rp_write_file(path, png.data, png.size, 0644, &err) < 0;
    CHECK(!failed, "no picture '%s'", path);
}

static void browser_stop(struct browser *b)
{
    close(b->to);
    close(b->from);
    kill(-b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    rp_buf_fini(&b->in);
}
