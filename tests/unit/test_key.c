/* Keys: a published vector, how they lie on disk, the trust store. */
#include "tests/unit/key_fixture.h"

#include "sign/trust.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/wait.h>

/* RFC 8032, 7.1, tests 1 and 2 */
static const struct {
    const char *seed, *public, *message, *sig;
} vectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
     "55141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb"
     "00d291612bb0c00"},
};

/* A PEM block around DER given in hex. */
static void pem_of(struct rp_buf *out, const char *label, const char *der_hex)
{
    unsigned char der[128];
    size_t n = strlen(der_hex) / 2;
    CHECK(rp_unhex(der, n, der_hex) == 0, "%s", der_hex);
    rp_buf_printf(out, "-----BEGIN %s-----\n", label);
    rp_base64(out, der, n);
    rp_buf_printf(out, "\n-----END %s-----\n", label);
}

TEST(signatures_are_those_of_rfc_8032)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        RP_BUF pem = {0}, pub = {0};
        struct rp_err err = {0};
        unsigned char sig[64], message[8];
        char hex[129];
        size_t n = strlen(vectors[i].message) / 2;
        RP_FREE char *der = rp_asprintf("302e020100300506032b657004220420%s", vectors[i].seed);
        RP_FREE char *spki = rp_asprintf("302a300506032b6570032100%s", vectors[i].public);
        pem_of(&pem, "PRIVATE KEY", der);
        pem_of(&pub, "PUBLIC KEY", spki);
        RP_FREE char *path = private_file("rfc8032", pem.data, 0600);
        FX_KEY *k = rp_key_load(path, -1, &err), *p = rp_key_load_public(pub.data, pub.size, "pub", &err);
        CHECK(k && p, "%s", err.msg);
        CHECK(rp_unhex(message, n, vectors[i].message) == 0, "%s", vectors[i].message);
        CHECK(rp_key_sign(k, message, n, sig, &err) == 0, "%s", err.msg);
        rp_hex(hex, sig, sizeof sig);
        CHECK_STR(hex, vectors[i].sig);
        CHECK(rp_key_verify(p, message, n, sig, &err) == 0, "%s", err.msg);
        CHECK(rp_key_sign(p, message, n, sig, &err) < 0, "a public key signed");
        CHECK(rp_unhex(sig, 64, vectors[i].sig) == 0, "vector");
        sig[32] ^= 1;
        CHECK(rp_key_verify(p, message, n, sig, &err) < 0 && err.code == RP_SIGNATURE, "%s", err.msg);
        RP_BUF again = {0};
        rp_key_public_pem(k, &again);
        CHECK_STR(again.data, pub.data);
        char a[RP_FINGERPRINT_SIZE], b[RP_FINGERPRINT_SIZE];
        rp_key_fingerprint(k, a);
        rp_key_fingerprint(p, b);
        CHECK(strcmp(a, b) == 0 && strlen(a) == RP_FINGERPRINT_SIZE - 1, "%s %s", a, b);
    }
}

/* The second of these keys as ssh-keygen writes it. */
#define SSH_PUBLIC "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAID1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYM"
#define SSH_HEAD "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
#define SSH_BODY \
    "QyNTUxOQAAACA9QBfD6EOJWpK3CqdNG368nJgszy7ElozAzVXxKvRmDAAAAJAAAAAHAAAA\n"                                        \
    "BwAAAAtzc2gtZW" "QyNTUxOQAAACA9QBfD6EOJWpK3CqdNG368nJgszy7ElozAzVXxKvRmDA\n"                                     \
    "AAAEBMzQibKP+W2p22w0bsEU4PW4oxnzWrpiTajPbtT7im+z1AF8PoQ4lakrcKp00bfryc\n"
#define SSH_END "mCzPLsSWjMDNVfEq9GYMAAAABmEgdGVzdAECAwQFBgc=\n"
#define SSH_BLOCK(text) "-----BEGIN OPENSSH PRIVATE KEY-----\n" text "-----END OPENSSH PRIVATE KEY-----\n"

TEST(keys_of_openssh_are_read)
{
    static const char rsa[] = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQx me\n";
    static const struct {
        const char *text, *part; /* NULL: the key of the vector */
    } public[] = {
        {SSH_PUBLIC, NULL},
        {"# of a git host\r\nssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQx me\r\n" SSH_PUBLIC " me at home\r\n", NULL},
        {SSH_PUBLIC "\n" SSH_PUBLIC "\n", "2 Ed25519 keys"},
        {rsa, "no key of type ssh-ed25519"},
        {"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAHz1AF8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GY=\n", /* 31 bytes */
         "line 1"},
        {SSH_PUBLIC "AAAA\n", "line 1"},
    }, private[] = {
        {SSH_BLOCK(SSH_HEAD SSH_BODY SSH_END), NULL},
        {SSH_BLOCK(SSH_HEAD SSH_BODY), "damaged"},
        {SSH_BLOCK(SSH_HEAD SSH_BODY "mCzPLsSWjMDNVfEq9GYMAAAABmEgdGVzdAECAwQFBgg=\n"), "damaged"}, /* 1, 2, ... 6, 8 */
        {SSH_BLOCK(SSH_HEAD SSH_BODY "mCzPLsSWjMDNVfEq9GYNAAAABmEgdGVzdAECAwQFBgc=\n"), "damaged"}, /* two keys */
        {SSH_BLOCK("b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAAAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAID1A"
                   "F8PoQ4lakrcKp00bfrycmCzPLsSWjMDNVfEq9GYMAAAAAA==\n"),
         "passphrase"},
    };
    RP_FREE char *spki = rp_asprintf("302a300506032b6570032100%s", vectors[1].public);
    RP_BUF pem = {0};
    pem_of(&pem, "PUBLIC KEY", spki);
    for (size_t i = 0; i < sizeof public / sizeof *public + sizeof private / sizeof *private; i++) {
        size_t of_private = i - sizeof public / sizeof *public;
        const char *text = i < sizeof public / sizeof *public ? public[i].text : private[of_private].text;
        const char *part = i < sizeof public / sizeof *public ? public[i].part : private[of_private].part;
        struct rp_err err = {0};
        RP_FREE char *path = private_file("of_openssh", text, 0600);
        FX_KEY *k = rp_key_load_any(path, -1, &err);
        RP_BUF read = {0};
        if (k)
            rp_key_public_pem(k, &read);
        CHECK(part ? !k && strstr(err.msg, part) : k && strcmp(read.data, pem.data) == 0, "%zu: %s", i, err.msg);
        unlink(path);
    }
}

TEST(public_keys_are_written_and_read_as_openssl_does)
{
    static const char *const line_ends[] = {"\n", "\r\n", "\n\n", " \n"};
    for (int turn = 0; turn < 8; turn++) {
        RP_FREE char *name = rp_asprintf("spelled%d", turn);
        FX_KEY *k = fx_key(name);
        RP_BUF ours = {0};
        struct rp_err err = {0};
        unsigned char raw[32], *der = NULL;
        char print[RP_FINGERPRINT_SIZE], expected[RP_FINGERPRINT_SIZE] = "SHA256:", *pem;
        rp_key_public_bytes(k, raw);
        rp_key_public_pem(k, &ours);
        rp_key_fingerprint(k, print);
        EVP_PKEY *theirs = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw, sizeof raw);
        BIO *bio = BIO_new(BIO_s_mem());
        CHECK(theirs && PEM_write_bio_PUBKEY(bio, theirs) == 1, "OpenSSL");
        long n = BIO_get_mem_data(bio, &pem);
        CHECK(rp_buf_is(&ours, pem, (size_t)n), "%s", ours.data);
        int size = i2d_PUBKEY(theirs, &der);
        rp_sha256_hex(expected + 7, der, (size_t)size);
        CHECK_STR(print, expected);
        for (size_t i = 0; i < sizeof line_ends / sizeof *line_ends; i++) {
            RP_BUF text = {0};
            for (const char *p = ours.data; *p; p++)
                if (*p == '\n')
                    rp_buf_puts(&text, line_ends[i]);
                else
                    rp_buf_add(&text, p, 1);
            FX_KEY *read = rp_key_load_public(text.data, text.size, "key", &err);
            /* a blank line ends the block for OpenSSL */
            CHECK((read != NULL) == (i != 2), "line ends %zu: %s", i, err.msg);
            if (read)
                rp_key_fingerprint(read, expected);
            CHECK_STR(print, expected);
        }
        OPENSSL_free(der);
        BIO_free(bio);
        EVP_PKEY_free(theirs);
    }
}

TEST(a_new_key_is_private_and_never_replaces_anything)
{
    struct rp_err err = {0};
    struct stat st;
    RP_BUF first = {0}, second = {0};
    RP_FREE char *path = fx_path("new/dir/key.pem"), *dir = fx_path("new/dir"), *dangling = fx_path("dangling"),
                 *target = fx_path("target");
    mode_t mask = umask(0);
    CHECK(rp_key_create(path, NULL, &err) == 0, "%s", err.msg);
    umask(mask);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "mode %o", st.st_mode);
    CHECK(stat(dir, &st) == 0 && (st.st_mode & 07777) == 0700, "mode %o", st.st_mode);
    CHECK(rp_read_file(&first, path, 4096, &err) == 0, "%s", err.msg);
    REFUSED(rp_key_create(path, NULL, &err) < 0 && err.code == RP_USAGE, err.msg);
    CHECK(rp_read_file(&second, path, 4096, &err) == 0, "%s", err.msg);
    CHECK_STR(second.data, first.data);
    CHECK(symlink(target, dangling) == 0 && rp_key_create(dangling, NULL, &err) < 0 && stat(target, &st) < 0,
          "wrote through a link");
    umask(0777);
    RP_FREE char *strict = fx_path("strict.pem");
    CHECK(rp_key_create(strict, NULL, &err) == 0 && stat(strict, &st) == 0 && (st.st_mode & 07777) == 0600,
          "under umask 0777: %s", err.msg);
    umask(mask);
    CHECK(rp_key_create("/proc/no/key.pem", NULL, &err) < 0 && err.code == RP_IO, "%s", err.msg);
    RP_FREE char *other = fx_path("other.pem");
    CHECK(rp_key_create(other, NULL, &err) == 0, "%s", err.msg);
    RP_BUF third = {0};
    CHECK(rp_read_file(&third, other, 4096, &err) == 0 && strcmp(third.data, first.data) != 0,
          "two new keys are the same");
}

static void expect_unloadable(const char *path, enum rp_code code)
{
    struct rp_err err = {0};
    FX_KEY *k = rp_key_load(path, -1, &err);
    REFUSED(!k && err.code == code, err.msg);
}

/* In a child who is nobody and has no rights of root; with root as its parent only. */
static int loads_as_nobody(const char *path)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct rp_err err;
        struct rp_key_pair *k = setgid(65534) < 0 || setuid(65534) < 0 ? NULL : rp_key_load(path, -1, &err);
        int loaded = k != NULL;
        rp_key_free(k);
        _exit(loaded);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), "no child");
    return WEXITSTATUS(status);
}

/* Whose file and directory it is: 0 root, 65534 the reader, 1000 somebody else. */
static void expect_owners(const char *dir, const char *key)
{
    static const struct {
        uid_t file, dir;
        mode_t mode; /* of the directory */
        int as_root, as_nobody;
    } cases[] = {
        {65534, 65534, 0755, 1, 1}, {65534, 0, 0755, 1, 1},     {65534, 1000, 0755, 1, 0}, {1000, 1000, 0755, 1, 0},
        {0, 1000, 0755, 1, 0},      {65534, 65534, 0775, 0, 0}, {65534, 0, 01777, 1, 1},   {65534, 0, 0777, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_err err = {0};
        CHECK(chown(key, cases[i].file, 0) == 0 && chown(dir, cases[i].dir, 0) == 0 && chmod(dir, cases[i].mode) == 0,
              "case %zu", i);
        struct rp_key_pair *k = rp_key_load(key, -1, &err);
        CHECK((k != NULL) == cases[i].as_root && (k || err.code == RP_USAGE), "case %zu: as root: %s", i, err.msg);
        rp_key_free(k);
        CHECK(loads_as_nobody(key) == cases[i].as_nobody, "case %zu: as nobody", i);
    }
}

TEST(attacks_on_the_file_of_a_key)
{
    struct rp_err err;
    RP_FREE char *dir = fx_path("shared"), *key = fx_path("shared/key.pem"), *link = fx_path("link.pem");
    CHECK(rp_key_create(key, NULL, &err) == 0 && symlink(key, link) == 0, "%s", err.msg);
    expect_unloadable(link, RP_USAGE);
    static const mode_t modes[] = {0770, 0707, 0777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK(chmod(dir, modes[i]) == 0, "chmod");
        expect_unloadable(key, RP_USAGE);
    }
    CHECK(chmod(dir, 0755) == 0, "chmod");
    FX_KEY *k = rp_key_load(key, -1, &err);
    CHECK(k, "%s", err.msg);
    if (geteuid() == 0 && chmod(fx_dir(), 0755) == 0) {
        expect_owners(dir, key);
        CHECK(chmod(fx_dir(), 0700) == 0, "chmod");
    }
}

TEST(keys_that_others_can_read_and_files_that_are_no_keys_are_refused)
{
    struct rp_err err;
    RP_BUF text = {0};
    RP_FREE char *key = fx_path("perm.pem");
    CHECK(rp_key_create(key, NULL, &err) == 0 && rp_read_file(&text, key, 4096, &err) == 0, "%s", err.msg);
    static const mode_t open_modes[] = {0640, 0604, 0660, 0644, 0601, 0610};
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        CHECK(chmod(key, open_modes[i]) == 0, "chmod");
        expect_unloadable(key, RP_USAGE);
    }
    static const char *const kinds[] = {"EC", "RSA", "DSA", "OPENSSH"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        RP_FREE char *pem =
            rp_asprintf("-----BEGIN %s PRIVATE KEY-----\nAAAA\n-----END %s PRIVATE KEY-----\n", kinds[i], kinds[i]);
        RP_FREE char *other = private_file(kinds[i], pem, 0600);
        expect_unloadable(other, RP_MALFORMED);
    }
    RP_FREE char *garbage = private_file("garbage", "hello", 0600), *none = fx_path("none");
    RP_FREE char *damaged =
        private_file("damaged", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0600);
    text.data[text.size / 2] ^= 1;
    RP_FREE char *big = rp_alloc(20001), *fifo = fx_path("openssl.cnf");
    memset(big, 'x', 20000);
    RP_FREE char *huge = private_file("huge", big, 0600);
    /* no key: whoever may read it, nobody is told to hide it */
    RP_FREE char *others = private_file("others", "hello", 0644);
    expect_unloadable(garbage, RP_MALFORMED);
    expect_unloadable(others, RP_MALFORMED);
    expect_unloadable(damaged, RP_MALFORMED);
    expect_unloadable(huge, RP_MALFORMED);
    expect_unloadable(none, RP_IO);
    expect_unloadable(fifo, RP_MALFORMED);
    expect_unloadable("/", RP_MALFORMED);

    RP_BUF pub = {0};
    FX_KEY *k = fx_key("pubonly");
    rp_key_public_pem(k, &pub);
    RP_FREE char *public = private_file("public", pub.data, 0644);
    expect_unloadable(public, RP_MALFORMED);
    REFUSED(!rp_key_load_public(text.data, text.size, "that", &err), err.msg);
    REFUSED(!rp_key_load_public(big, 20000, "that", &err) && err.code == RP_MALFORMED, err.msg);
    EVP_PKEY *x = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    CHECK(x && PEM_write_bio_PrivateKey(bio, x, NULL, NULL, 0, NULL, NULL) && BIO_write(bio, "", 1) == 1 &&
              BIO_get_mem_data(bio, &pem) > 0,
          "X25519");
    RP_FREE char *wrong = private_file("x25519", pem, 0600);
    expect_unloadable(wrong, RP_MALFORMED);
    BIO_free(bio);
    EVP_PKEY_free(x);
}

/* A key file is signed by nobody. Harmless is a file with the same key in it, and one with another: nobody knows
 * that. */
TEST(a_flipped_bit_of_a_key_is_refused_or_makes_another_key)
{
    static const char message[] = "what was signed";
    struct rp_err err;
    unsigned char sig[64];
    char print[RP_FINGERPRINT_SIZE], other[RP_FINGERPRINT_SIZE];
    struct rp_buf files[2] = {{0}, {0}};
    RP_FREE char *path = fx_path("flipped");
    FX_KEY *k = fx_key("whole");
    RP_FREE char *whole = fx_path("whole");
    int refused = 0, all = 0;
    CHECK(rp_read_file(&files[0], whole, 4096, &err) == 0 && rp_key_sign(k, message, sizeof message, sig, &err) == 0,
          "%s", err.msg);
    rp_key_public_pem(k, &files[1]);
    rp_key_fingerprint(k, print);
    for (int public = 0; public < 2; public++)
        for (size_t i = 0; i < files[public].size * 8; i += tap_long() ? 1 : 3) { /* of each byte other bits */
            struct rp_buf *f = &files[public];
            unsigned char made[64];
            f->data[i / 8] ^= (char)(1 << i % 8);
            CHECK(rp_write_file(path, f->data, f->size, 0600, &err) == 0, "%s", err.msg);
            FX_KEY *bent = rp_key_load_any(path, -1, &err);
            f->data[i / 8] ^= (char)(1 << i % 8);
            all++;
            if (!bent) {
                refused++;
                continue;
            }
            rp_key_fingerprint(bent, other);
            int same = strcmp(print, other) == 0;
            CHECK((rp_key_verify(bent, message, sizeof message, sig, &err) == 0) == same,
                  "bit %zu: it verifies as another key", i);
            if (rp_key_sign(bent, message, sizeof message, made, &err) == 0)
                CHECK((rp_key_verify(k, message, sizeof message, made, &err) == 0) == same,
                      "bit %zu: it signs as another key", i);
        }
    CHECK(refused > all / 4 && refused < all, "%d of %d", refused, all);
    rp_buf_fini(&files[0]);
    rp_buf_fini(&files[1]);
}

TEST(public_keys_under_which_anyone_signs_are_refused)
{
    static const char *const bad[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    };
    struct rp_err err;
    RP_BUF two = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_BUF pem = {0}, signify = {0};
        unsigned char record[42] = "Ed12345678";
        RP_FREE char *der = rp_asprintf("302a300506032b6570032100%s", bad[i]);
        pem_of(&pem, "PUBLIC KEY", der);
        REFUSED(!rp_key_load_public(pem.data, pem.size, "that", &err) && err.code == RP_MALFORMED, err.msg);
        CHECK(rp_unhex(record + 10, 32, bad[i]) == 0, "hex");
        rp_buf_puts(&signify, "untrusted comment: x\n");
        rp_base64(&signify, record, sizeof record);
        rp_buf_puts(&signify, "\n");
        REFUSED(!rp_key_load_public(signify.data, signify.size, "that", &err), err.msg);
    }
    FX_KEY *k = fx_key("twice");
    rp_key_public_pem(k, &two);
    rp_key_public_pem(k, &two);
    CHECK(!rp_key_load_public(two.data, two.size, "that", &err) && strstr(err.msg, "PEM blocks"), "two keys in a file");
}

/* As in a container where root signs with the key that its user lent it. */
TEST(root_may_use_the_key_of_a_user)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("lent.key");
    if (geteuid() != 0)
        SKIP("only root can give a file away, and only root can read such a key");
    CHECK(rp_key_create(path, NULL, &err) == 0 && chown(path, 12345, (gid_t)-1) == 0, "%s", err.msg);
    FX_KEY *k = rp_key_load(path, -1, &err);
    CHECK(k, "%s", err.msg);
}

TEST(the_default_key_is_made_once)
{
    struct rp_err err;
    int created;
    char a[RP_FINGERPRINT_SIZE], b[RP_FINGERPRINT_SIZE];
    struct rp_key_pair *k = rp_key_load_or_create(NULL, -1, &created, &err);
    CHECK(k && created, "%s", err.msg);
    rp_key_fingerprint(k, a);
    rp_key_free(k);
    k = rp_key_load_or_create(NULL, -1, &created, &err);
    CHECK(k && !created, "made again");
    rp_key_fingerprint(k, b);
    rp_key_free(k);
    CHECK_STR(b, a);
    RP_FREE char *none = fx_path("no-such-key.pem");
    CHECK(!rp_key_load_or_create(none, -1, &created, &err) && err.code == RP_IO && !created,
          "a key that was named and is missing was made");
    setenv("REPRO_KEY", none, 1);
    k = rp_key_load_or_create(NULL, -1, &created, &err);
    CHECK(k && created && access(none, F_OK) == 0, "REPRO_KEY was not used");
    rp_key_free(k);
    unsetenv("REPRO_KEY");
    setenv("XDG_CONFIG_HOME", "relative", 1); /* ignored */
    char *home = getenv("HOME") ? rp_strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    CHECK(!rp_key_default_path(&err) && err.code == RP_USAGE && strstr(err.msg, "REPRO_KEY"), "%s", err.msg);
    setenv("HOME", "/nowhere/x", 1);
    RP_FREE char *path = rp_key_default_path(&err);
    CHECK_STR(path, "/nowhere/x/.config/repro/key.pem");
    if (home)
        setenv("HOME", home, 1);
    else
        unsetenv("HOME");
    free(home);
    setenv("XDG_CONFIG_HOME", fx_dir(), 1);
}

/* Neither a place of its own nor a home. */
TEST(keys_need_a_directory_by_an_absolute_path)
{
    static const struct {
        const char *xdg, *home, *path;
    } rows[] = {{NULL, NULL, NULL},
                {"", "", NULL},
                {"keys", NULL, NULL},
                {NULL, "keys", NULL},
                {"keys", "/h", "/h/.config/repro/x"},
                {"/k", "/h", "/k/repro/x"},
                {"", "/h", "/h/.config/repro/x"}};
    RP_FREE char *xdg = rp_strdup(getenv("XDG_CONFIG_HOME") ? getenv("XDG_CONFIG_HOME") : ""),
                 *home = rp_strdup(getenv("HOME") ? getenv("HOME") : "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_err err = {0};
        unsetenv("XDG_CONFIG_HOME");
        unsetenv("HOME");
        if (rows[i].xdg)
            setenv("XDG_CONFIG_HOME", rows[i].xdg, 1);
        if (rows[i].home)
            setenv("HOME", rows[i].home, 1);
        RP_FREE char *path = rp_config_path("x", &err);
        if (rows[i].path)
            CHECK_STR(path, rows[i].path);
        else
            CHECK(!path && err.code == RP_USAGE, "%zu: %s", i, path ? path : err.msg);
    }
    setenv("XDG_CONFIG_HOME", xdg, 1);
    setenv("HOME", home, 1);
}

/* Eight processes start at once without a key: all end with the same one. */
TEST(racing_first_runs_agree_on_one_key)
{
    RP_FREE char *config = fx_path("race");
    int fds[2], n = 8, made = 0;
    CHECK(mkdir(config, 0700) == 0 && pipe(fds) == 0, "setup");
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        if (fork())
            continue;
        struct rp_err err;
        int created;
        char print[RP_FINGERPRINT_SIZE + 1] = {0};
        setenv("XDG_CONFIG_HOME", config, 1);
        struct rp_key_pair *k = rp_key_load_or_create(NULL, -1, &created, &err);
        if (k)
            rp_key_fingerprint(k, print);
        print[RP_FINGERPRINT_SIZE] = (char)created;
        _exit(write(fds[1], print, sizeof print) == sizeof print ? 0 : 1);
    }
    close(fds[1]);
    char first[RP_FINGERPRINT_SIZE + 1] = {0};
    for (int i = 0; i < n; i++) {
        char print[RP_FINGERPRINT_SIZE + 1] = {0};
        CHECK(read(fds[0], print, sizeof print) == sizeof print && *print, "a process ended without a key");
        made += print[RP_FINGERPRINT_SIZE];
        if (i == 0)
            memcpy(first, print, sizeof first);
        CHECK_STR(print, first);
    }
    close(fds[0]);
    while (wait(NULL) > 0) {
    }
    CHECK(made == 1, "%d keys were made", made);
}

/* OpenSSL's secure heap is locked and left out of core dumps; what is in use of it is counted. */
TEST(private_keys_live_in_the_secure_heap_and_leave_it)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("heap.pem");
    CHECK(rp_key_create(path, NULL, &err) == 0, "%s", err.msg);
    size_t before = CRYPTO_secure_used();
    struct rp_key_pair *k = rp_key_load(path, -1, &err);
    CHECK(k && CRYPTO_secure_used() >= before + 32, "%zu bytes before, %zu with a key loaded", before,
          CRYPTO_secure_used());
    rp_key_free(k);
    CHECK(CRYPTO_secure_used() == before, "%zu bytes before, %zu after", before, CRYPTO_secure_used());
}

TEST(a_damaged_entry_of_the_trust_store_hides_no_other)
{
    struct rp_err err;
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    struct rp_trust_list list;
    RP_FREE char *dir = fx_path("repro/trust"), *bad = fx_path("repro/trust/bad.pem"),
                 *hidden = fx_path("repro/trust/.hidden.pem");
    CHECK(rp_trust_list(&list, &err) == 0 && list.n == 0, "an absent store is not empty");
    CHECK(rp_mkdirs(dir, 0700, &err) == 0, "%s", err.msg);
    FX_KEY *k = fx_key("trusted");
    char print[RP_FINGERPRINT_SIZE];
    rp_key_fingerprint(k, print);
    CHECK(rp_trust_add("zoe", NULL, k, &err) == 0 && rp_trust_add("zoe", NULL, k, &err) == 0, "%s", err.msg);
    CHECK(rp_write_file(hidden, "x", 1, 0600, &err) == 0, "%s", err.msg);
    CHECK(rp_trust_find(print, name, until, &err) == 1 && strcmp(name, "zoe") == 0, "%s", name);
    CHECK(rp_trust_find("SHA256:00", name, until, &err) == 0, "found what is not there");
    CHECK(rp_trust_list(&list, &err) == 0 && list.n == 1 && strcmp(list.key[0].fingerprint, print) == 0, "list");
    rp_trust_list_fini(&list);
    CHECK(rp_write_file(bad, "x", 1, 0600, &err) == 0, "%s", err.msg);
    *name = 0;
    CHECK(rp_trust_find(print, name, until, &err) == 1 && strcmp(name, "zoe") == 0, "%s", name);
    CHECK(rp_trust_find("SHA256:00", name, until, &err) < 0 && strstr(err.msg, "bad.pem"), "%s", err.msg);
    CHECK(rp_trust_list(&list, &err) == 0 && list.n == 1 && list.n_skipped == 1 && strstr(list.skipped[0], "bad.pem"),
          "%d, %d", list.n, list.n_skipped);
    rp_trust_list_fini(&list);
    static const char *const names[] = {
        "", ".x", "-x", "a/b", "a b", "a\nb", "0123456789012345678901234567890123456789012345678901234567890123x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(rp_trust_add(names[i], NULL, k, &err) < 0 && err.code == RP_USAGE, "'%s' was taken as a name", names[i]);
}
