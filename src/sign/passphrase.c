#include "sign/passphrase.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { CTRL_C = 3, CTRL_D = 4, BACKSPACE = 8, CTRL_U = 21, DELETE = 127 };

void rp_wipe(void *p, size_t size)
{
    OPENSSL_cleanse(p, size);
}

void rp_passphrase_fini(struct rp_passphrase *p)
{
    rp_wipe(p, sizeof *p);
}

/* Line editing, which a terminal in raw mode does not do: 1 the key edited the line, 0 it is part of the line, -1 it
 * ends the line. */
static int edit_text(char c, char *text, size_t *n)
{
    if (c == CTRL_D)
        return -1;
    if (c == CTRL_U)
        *n = 0;
    else if ((c == BACKSPACE || c == DELETE) && *n)
        while (--*n && ((unsigned char)text[*n] & 0xc0) == 0x80) { /* a character of several bytes goes as one */
        }
    return c == CTRL_U || c == BACKSPACE || c == DELETE;
}

/* One line from fd, a byte at a time so that nothing after it is consumed. Returns the length, or -1: errno, or 0 for
 * Ctrl-C. */
static ssize_t read_secret(int fd, char *text, size_t size, int tty)
{
    size_t n = 0;
    for (;;) {
        char c = 0;
        ssize_t got = RP_RETRY(read(fd, &c, 1));
        if (got < 0)
            return -1;
        if (got == 0 || c == '\n')
            break;
        if (tty && c == CTRL_C) {
            errno = 0;
            return -1;
        }
        int edited = tty ? edit_text(c, text, &n) : 0;
        if (edited < 0)
            break;
        if (edited)
            continue;
        if (c == 0 || n + 1 == size) {
            errno = c ? E2BIG : EILSEQ;
            return -1;
        }
        text[n++] = c;
    }
    text[n] = 0;
    return (ssize_t)n;
}

int rp_passphrase_from_fd(struct rp_passphrase *p, int fd, struct rp_err *err)
{
    ssize_t n = read_secret(fd, p->text, sizeof p->text, 0);
    if (n < 0 && errno == E2BIG)
        return rp_fail(err, RP_USAGE, "the passphrase on descriptor %d is longer than %zu bytes", fd,
                       sizeof p->text - 1);
    if (n < 0)
        return rp_fail(err, RP_IO, "cannot read the passphrase from descriptor %d: %s", fd,
                       errno == EILSEQ ? "it holds a zero byte" : strerror(errno));
    if (n == 0)
        return rp_fail(err, RP_USAGE, "the passphrase on descriptor %d is empty", fd);
    return 0;
}

static int ask_once(int tty, struct rp_passphrase *p, const char *prompt, struct rp_err *err)
{
    if (rp_write_all(tty, prompt, strlen(prompt)) < 0)
        return rp_fail(err, RP_IO, "cannot write to the terminal: %s", strerror(errno));
    ssize_t n = read_secret(tty, p->text, sizeof p->text, 1);
    int sys = errno;
    if (rp_write_all(tty, "\n", 1) < 0 || (n < 0 && sys && sys != E2BIG))
        return rp_fail(err, RP_IO, "cannot read the passphrase from the terminal: %s", strerror(sys));
    if (n < 0 && sys == E2BIG)
        return rp_fail(err, RP_USAGE, "the passphrase is longer than %zu bytes", sizeof p->text - 1);
    if (n < 0)
        return rp_fail(err, RP_INTERRUPTED, "interrupted at the passphrase");
    if (n == 0)
        return rp_fail(err, RP_USAGE, "the passphrase is empty");
    return 0;
}

int rp_passphrase_ask(struct rp_passphrase *p, const char *prompt, int again, struct rp_err *err)
{
    RP_PASSPHRASE second = {{0}};
    struct termios before, quiet;
    RP_FD tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty < 0 || tcgetattr(tty, &before) < 0)
        return rp_fail(err, RP_UNAVAILABLE,
                       "a passphrase is needed, but no terminal is attached; give it with --passphrase-fd N");
    /* Without ISIG and ICANON Ctrl-C arrives as a byte, at once, so the terminal cannot be left without echo. */
    quiet = before;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ISIG | ICANON);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    if (tcsetattr(tty, TCSAFLUSH, &quiet) < 0)
        return rp_fail(err, RP_IO, "cannot switch off the terminal's echo: %s", strerror(errno));
    int failed = ask_once(tty, p, prompt, err) < 0;
    if (!failed && again) {
        failed = ask_once(tty, &second, "once more: ", err) < 0;
        if (!failed && strcmp(p->text, second.text) != 0)
            failed = rp_fail(err, RP_USAGE, "the two passphrases differ") < 0;
    }
    tcsetattr(tty, TCSAFLUSH, &before);
    return failed ? -1 : 0;
}
