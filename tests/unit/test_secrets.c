/* What is a secret, what names somebody, and what is neither. Tokens are put together here, so that no file holds
 * one. */
#include "capture/privacy/image_name.h"
#include "capture/privacy/secrets.h"
#include "tests/unit/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define R "AbCdEf0123456789AbCdEf0123456789abcd"
#define HEX28 "6f1ed002ab5595859014ebf09515"

TEST(settings)
{
    static const char *const secret[] = {"wJalrXUtnFEMI/"
                                         "K7MDENG/bPxRfiCYEXAMPLEKEY",
                                         HEX28,
                                         "Z2hwX0FiQ2RFZjAxMjM0NTY3",
                                         "ghp%5F" R,
                                         "pa%73%73word=x",
                                         "user=bob pw=x",
                                         "passcode: x",
                                         "SG."
                                         "ngeVfQFYQlKU0ufo8x5d1A.x",
                                         "dckr_pat_" R,
                                         "xapp-"
                                         "1-A0-x1234567",
                                         "https://hooks.slack.com/"
                                         "services/T/B/x",
                                         "http://x.webhook.example/T0",
                                         "{\"auths\":{\"r\":{\"auth\":\"Ym9iOng=\"}}}",
                                         "bob:x@host",
                                         "https%3A%2F%2Fbob%3Ax%40host%2F",
                                         "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQx",
                                         "x=hf_"
                                         "AbCd1234",
                                         "/opt/sk-"
                                         "Ab12345678",
                                         "pwd=x",
                                         "--token=x"};
    static const char *const plain[] = {"INFO",
                                        "granularity=fine,compact,1,0",
                                        "eth0,eth1",
                                        "mlx5_0:1,mlx5_1:1",
                                        "/usr/local/cuda-12.9/targets/x86_64-linux/lib:/usr/lib64",
                                        "/workspace/DeepLearningExamples/TensorFlow2/LanguageModeling/BERT",
                                        "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
                                        "/nix/store/0c7d1f3a5z8y2x4w6v9u0t1s3r5q7p9n-gcc-13.2.0-lib/lib",
                                        "/spack/opt/nccl-2.19.3-abcdefghijklmnopqrstuvwxyz234567/lib",
                                        "12.9.1.100-1",
                                        "2.28.9-1+cuda12.9",
                                        "cuda>=12.9 brand=unknown,driver>=535,driver<536",
                                        "0xffffffff,ffffffff,ffffffff,ffffffff",
                                        "--xla_gpu_enable_triton_gemm=true --xla_gpu_graph_level=0",
                                        "expandable_segments:True,max_split_size_mb:512",
                                        "disk-usage",
                                        "glibc.malloc.arena_max=1:glibc.pthread.rseq=1",
                                        "^lo,docker,virbr",
                                        "50%",
                                        "100%25 used"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        CHECK(rp_is_secret("NCCL_X", secret[i]), "%s", secret[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(!rp_is_secret("NCCL_X", plain[i]), "%s", plain[i]);
    CHECK(rp_is_secret("DB_PW", "x") && rp_is_secret("MY_COOKIE", "x") && rp_is_secret("SLACK_WEBHOOK", "x"), "a name");
}

TEST(names)
{
    static const char *const secret[] = {"ghp_" R,
                                         "feature/ghp_" R,
                                         "v1-hf_" R,
                                         "pass=marker",
                                         "data/xapp-"
                                         "1-A0-x1234567",
                                         HEX28,
                                         "sub/AKIA"
                                         "ABCDEFGHIJKLMNOP",
                                         "Z2hwX0FiQ2RFZjAxMjM0NTY3",
                                         "a%67hp%5F" R "/pass%3Dx"};
    static const char *const plain[] = {"main",
                                        "feature/fix-password-reset",
                                        "release-2026.01",
                                        "v1.2-3-gabcdef012345",
                                        "src/capture/secrets.c",
                                        "tests/unit/test_git_hostile.c",
                                        "task-list-of-the-day",
                                        "hf_datasets",
                                        "hf_transformers_cache",
                                        "dependabot/npm_and_yarn/lodash-4.17.21",
                                        "sk-learn",
                                        "origin/user-interface",
                                        "ResNet50v1.5_FP16"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        CHECK(rp_is_secret_name(secret[i]), "%s", secret[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(!rp_is_secret_name(plain[i]), "%s", plain[i]);
}

/* What could be guessed from the digest of a file: passwords, not tokens and keys. */
TEST(files)
{
    static const char *const secret[] = {"//registry.example/:_authToken=" HEX28,
                                         "Authorization: Basic Ym9iOmh1bnRlcg==",
                                         "h = {'Authorization': 'Bearer abcdef12345'}",
                                         "PASS=hunter",
                                         "DB_PW='abcd'",
                                         "pwd=hunter22",
                                         "mysql --password hunter22 db",
                                         "tool --db-password 'hunter22'",
                                         "password: |\n  hunter2hunter2\n",
                                         "password:\n    hunter2hunter2",
                                         "machine h login bob password hunter22",
                                         "login bob password hunter22",
                                         "https%3A%2F%2Fbob%3Ahunter22%40host",
                                         "{\"auth\": \"Ym9iOmh1bnRlckIy\"}",
                                         "pass: \"hunter\"",
                                         "export API_TOKEN=marker12345",
                                         "url = https://me:marker@host/x",
                                         "\"aws_secret_access_key\": \"wJalrXUtnFEMI\"",
                                         "curl -u bob:hunter22 https://host/",
                                         "curl --user \"bob:hunt er\" https://host/",
                                         "wget --proxy-user bob:hunter22",
                                         "mysql -h db -u bob -phunter22 train",
                                         "sshpass -p 'hunter22' ssh host",
                                         "mysqldump -p\"hunter22\" train",
                                         "<password>hunter22</password>",
                                         "<entry><Api-Key>hunter22</Api-Key></entry>",
                                         "api-key: hunter22",
                                         "X-Api-Key: 0a1b2c3d4e5f"};
    static const char *const plain[] = {"parser.add_argument(\"--password\", help=\"of the data base\")",
                                        "usage: tool --password PASSWORD",
                                        "tool --password $PASSWORD",
                                        "tool --password-file f",
                                        "if password:\n    login(password)",
                                        "if password:\n    return value",
                                        "pass",
                                        "passes = 1000000",
                                        "compass: north-west",
                                        "pwd=$(pwd)",
                                        "pwd = os.getcwd()",
                                        "PASS = 1",
                                        "def f(pwd: str, pw: int)",
                                        "headers['Authorization'] = f'Bearer {x}'",
                                        "\"integrity\": \"sha512-0123456789abcdef0123456789abcdef\"",
                                        "--hash=sha256:0123456789abcdef0123456789abcdef",
                                        "commit 0123456789abcdef0123456789abcdef01234567",
                                        "OLDPWD=/tmp/x1234567",
                                        "100%",
                                        "-----BEGIN OPENSSH PRIVATE KEY-----",
                                        "key: ghr_abcdefghijklmnopqrstuvwxyz",
                                        "aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4eF6",
                                        "printf(\"%d %20s\")",
                                        "password: str = field()",
                                        "authorization of the run",
                                        "0x1p-30 0.0000000000000000000000000001",
                                        "disk-usage-of-the-cached-and-sorted-tokens",
                                        "token = tokenizer.next(line)",
                                        "pypi-mirror-of-the-index-and-of-everything-in-it",
                                        "password = getpass()",
                                        "PAD_TOKEN = '<pad>'",
                                        "https://host/a@b",
                                        "docker run -u 1000:1000 image",
                                        "docker run -p 8080:80 image",
                                        "patch -p1 <a.diff",
                                        "mysql -p train",
                                        "mysql -p$PASSWORD train",
                                        "<password></password>",
                                        "<Password>$(secret)</Password>",
                                        "sorted(list, key=by_first_letter)",
                                        "primary-key: identifier_of_user",
                                        "sort_key = lambda line: line.split()[0]",
                                        "src/capture/privacy/secrets/text/of/Files",
                                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        CHECK(rp_has_password(secret[i], strlen(secret[i])), "%s", secret[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(!rp_has_password(plain[i], strlen(plain[i])), "%s", plain[i]);
}

TEST(persons)
{
    static const char *const somebody[] = {"alice@corp.example.com",   "550e8400-e29b-41d4-a716-446655440000",
                                           "/data/users/alice/x:/lib", "/scratch/alice",
                                           "/lib:/u/alice/lib",        "/gpfs/users/alice/nccl.log",
                                           "file=/srv/u/alice",        "/Users/alice",
                                           "bob/home/carol",           "10.1.2.3",
                                           "run-of-planteduser-7",     "node17-plantedhost.example"};
    static const char *const nobody[] = {
        "/scratch", "/usr/local/cuda", "/opt/u",       "12.570.86.10",         "libx.so.1.2.3.4",
        "user",     "@rpath/lib",      "planteduserx", "/usr/share/users.txt", "a@b"};
    char host[256];
    CHECK(gethostname(host, sizeof host) == 0, "no host name");
    setenv("USER", "planteduser", 1);
    for (size_t i = 0; i < sizeof somebody / sizeof *somebody; i++)
        CHECK(strstr(somebody[i], "plantedhost") || rp_is_identity(somebody[i]), "%s", somebody[i]);
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++)
        CHECK(!rp_is_identity(nobody[i]), "%s", nobody[i]);
    host[strcspn(host, ".")] = 0;
    RP_FREE char *said = rp_asprintf("node17-%s.example", host);
    CHECK(strlen(host) < 4 || rp_is_identity(said), "%s", said);
    setenv("USER", "root", 1);
    CHECK(!rp_is_identity("root"), "root is everybody");
}

TEST(messages)
{
    struct rp_capture_opts o = {.root = "/"};
    struct rp_probe p = {.opts = &o, .salt = "00", .name = "gpu"};
    static const char *const cases[][2] = {
        {"the GPU worker crashed (signal 6, Aborted): failed at /srv/u/alice/x",
         "the GPU worker crashed (signal 6, Aborted): failed at <path>"},
        {"cannot start: no loader (/lib64/ld-linux-x86-64.so.2)",
         "cannot start: no loader (/lib64/ld-linux-x86-64.so.2)"},
        {"path=/srv/u/alice: bad", "path=<path>: bad"},
        {"device 550e8400-e29b-41d4-a716-446655440000 is lost", "device <hidden> is lost"},
        {"board 0321219012345 of alice@corp.example", "board <hidden> of <hidden>"},
        {"error 0x1f in libcuda.so.1, version 570.86.10", "error 0x1f in libcuda.so.1, version 570.86.10"},
        {"key " HEX28 " refused", "key <hidden> refused"},
        {"(RP_GPU_TIMEOUT_MS=60000 waits longer)", "(RP_GPU_TIMEOUT_MS=60000 waits longer)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *public = rp_public_message(&p, cases[i][0]);
        CHECK_STR(public, cases[i][1]);
    }
    RP_FREE char *withheld = rp_public_message(&p, "the password is x");
    SAID(withheld);
}

#define DIGEST "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(image_names_lose_registries_that_are_not_public)
{
    static const char *const names[][2] = {
        {"nvcr.io/nvidia/pytorch:24.01-py3" DIGEST, "nvcr.io/nvidia/pytorch:24.01-py3" DIGEST},
        {"registry.corp:5000/team/image:1" DIGEST, "team/image:1" DIGEST},
        {"robot:" R "@registry.corp/team/image", "team/image"},
        {"localhost/a.b/image", "image"}, /* as it would be when it is read again */
        {"docker://nvcr.io#nvidia/pytorch:24.01-py3", "nvcr.io/nvidia/pytorch:24.01-py3"},
        {"/home/somebody/repro.sif", "repro.sif"},
        {"image", "image"},
        {DIGEST + 1, DIGEST + 1},
        {"image@sha256:0123", "image"},
        {"robot:" R "@image", NULL},
        {"", NULL},
        {"two words", NULL},
        {"registry.corp/", NULL},
    };
    size_t n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RP_FREE char *shown = rp_image_show(names[i][0]), *again = shown ? rp_image_show(shown) : NULL;
        CHECK(names[i][1] ? shown && strcmp(shown, names[i][1]) == 0 : !shown, "%s: %s", names[i][0], shown);
        CHECK(!shown || (again && strcmp(shown, again) == 0), "%s: %s, then %s", names[i][0], shown, again);
    }
    CHECK_STR(rp_image_digest("a" DIGEST, &n), DIGEST + 8);
    CHECK(n == 1 && !rp_image_digest("a@sha256:0", &n), "%zu", n);
}
