/* Keys with a passphrase: from a descriptor, from a terminal, and without either. */
#include "tests/unit/key_fixture.h"

#include <fcntl.h>
#include <sys/wait.h>

/* A descriptor from which that text can be read. */
static int fd_with(const char *text)
{
    int fds[2];
    CHECK(pipe(fds) == 0 && rp_write_all(fds[1], text, strlen(text)) == 0, "pipe");
    close(fds[1]);
    return fds[0];
}
TEST(encrypted_keys_open_with_their_passphrase_only)
{
    static const char secret[] = "correct horse";
    struct rp_err err = {0};
    RP_BUF text = {0};
    RP_FREE char *path = fx_path("encrypted.pem"), *plain = fx_path("plain.pem");
    CHECK(rp_key_create(path, "", &err) < 0 && err.code == RP_USAGE, "an empty passphrase");
    CHECK(rp_key_create(path, secret, &err) == 0 && rp_key_create(plain, NULL, &err) == 0, "%s", err.msg);
    CHECK(rp_read_file(&text, path, 8192, &err) == 0 && strstr(text.data, "BEGIN ENCRYPTED PRIVATE KEY"), "%s",
          text.data);
    text.size = 0;
    CHECK(rp_read_file(&text, plain, 8192, &err) == 0 && strstr(text.data, "BEGIN PRIVATE KEY"), "%s", text.data);
    int fd = fd_with("correct horse\nnext line");
    struct rp_key_pair *k = rp_key_load(path, fd, &err);
    CHECK(k, "%s", err.msg);
    char rest[16] = {0};
    CHECK(read(fd, rest, 9) == 9 && strcmp(rest, "next line") == 0, "what follows the passphrase was swallowed: '%s'",
          rest);
    close(fd);
    unsigned char sig[64];
    CHECK(k && rp_key_sign(k, "x", 1, sig, &err) == 0 && rp_key_verify(k, "x", 1, sig, &err) == 0, "%s", err.msg);
    rp_key_free(k);
    static const struct {
        const char *typed, *says;
    } wrong[] = {{"Correct horse\n", "does not open"}, {"\n", "is empty"}, {"", "is empty"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fd = fd_with(wrong[i].typed);
        CHECK(!rp_key_load(path, fd, &err) && err.code == RP_USAGE && strstr(err.msg, wrong[i].says),
              "expected '%s' in: %s", wrong[i].says, err.msg);
        CHECK(!strstr(err.msg, "horse"), "the passphrase is in the message: %s", err.msg);
        close(fd);
    }
    RP_FREE char *longest = rp_alloc(5002);
    memset(longest, 'a', 5000);
    fd = fd_with(longest);
    CHECK(!rp_key_load(path, fd, &err), "%s", err.msg);
    close(fd);
    CHECK(!rp_key_load(path, 987, &err) && err.code == RP_IO, "%s", err.msg);
    fd = fd_with("never read");
    k = rp_key_load(plain, fd, &err);
    CHECK(k && read(fd, rest, 5) == 5 && memcmp(rest, "never", 5) == 0, "a plain key asked for a passphrase");
    rp_key_free(k);
    close(fd);
}

/* One wrong passphrase of 256 decrypts the last block to a valid padding: what follows is not a key. Made with OpenSSL,
 * PBKDF2. */
TEST(a_wrong_passphrase_with_a_valid_padding_is_a_wrong_passphrase)
{
    static const char pem[] =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
        "MIGaMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAjdHk0Y80QCywIBATAM\n"
        "BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBKgQQeXDZaaGbCG1vZE9hXw6lRARAXPf+\n"
        "zAd1T/gRRVzjUSXGOi2SgovwfGs3iBT8ZLp7NbR2xkVpOwKAGFkByaHtMVB7Ba18\n"
        "SQ0Hp1Nqs837lm/kuQ==\n"
        "-----END ENCRYPTED PRIVATE KEY-----\n";
    /* the first gives no valid padding, the others do */
    static const char *const wrong[] = {"wrong1", "wrong681", "wrong1101"};
    struct rp_err err = {0};
    RP_FREE char *path = private_file("padding.pem", pem, 0600);
    int fd = fd_with("right");
    FX_KEY *k = rp_key_load(path, fd, &err);
    CHECK(k, "%s", err.msg);
    close(fd);
    RP_FREE char *expected = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fd = fd_with(wrong[i]);
        CHECK(!rp_key_load(path, fd, &err) && err.code == RP_USAGE && strstr(err.msg, "does not open"), "%s: %s",
              wrong[i], err.msg);
        if (!expected)
            expected = rp_asprintf("%s", err.msg);
        CHECK(strcmp(expected, err.msg) == 0, "%s: %s, not %s", wrong[i], err.msg, expected);
        close(fd);
    }
}

TEST(without_a_terminal_or_descriptor_an_encrypted_key_says_what_to_do)
{
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("encrypted2.pem");
    CHECK(rp_key_create(path, "pass", &err) == 0, "%s", err.msg);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) { /* a session of its own has no terminal */
        setsid();
        struct rp_key_pair *k = rp_key_load(path, -1, &err);
        _exit(!k && err.code == RP_UNAVAILABLE && strstr(err.msg, "--passphrase-fd") ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %d", status);
}

/* A child on a terminal of its own that loads an encrypted key while `typed` is typed; its answer is its exit
 * status. */
static int on_terminal(const char *path, const char *typed, char *shown, size_t size)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), status = -1;
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0, "no pseudo terminal");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_err err = {0};
        setsid();
        if (open(ptsname(master), O_RDWR) < 0) /* becomes the controlling terminal */
            _exit(99);
        alarm(20);
        _exit(rp_key_load(path, -1, &err) ? 0 : rp_exit_status(err.code));
    }
    size_t n = 0;
    int sent = 0;
    while (n + 1 < size) {
        ssize_t got = read(master, shown + n, size - n - 1);
        if (got <= 0)
            break;
        n += (size_t)got;
        shown[n] = 0;
        if (!sent && strstr(shown, ": ")) {
            usleep(50000); /* the prompt is written after the echo is off; this is for what may come late */
            sent = rp_write_all(master, typed, strlen(typed)) == 0;
        }
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "status %x", (unsigned)status);
    close(master);
    return WEXITSTATUS(status);
}

TEST(a_terminal_is_asked_once_without_echo)
{
    static const struct {
        const char *typed;
        int status;
    } cases[] = {{"correct horse\r", 0},
                 {"junk\x15"
                  "correcx\x7ft horse\r",
                  0},
                 {"Correct horse\r", 2},
                 {"\r", 2},
                 {"corr\x03", 130}};
    struct rp_err err;
    RP_FREE char *path = fx_path("terminal.pem");
    CHECK(rp_key_create(path, "correct horse", &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[2048] = "";
        int status = on_terminal(path, cases[i].typed, shown, sizeof shown);
        CHECK(status == cases[i].status, "case %zu: status %d, shown: %s", i, status, shown);
        CHECK(!strstr(shown, "orr") && strstr(shown, "passphrase"), "shown: %s", shown);
    }
}
