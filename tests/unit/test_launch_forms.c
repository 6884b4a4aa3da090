/* What `launch` prints: every placeholder is replaced, manifests are YAML with what the API requires, and every process
 * gets the key. */
#include "base/buf.h"
#include "base/json.h"
#include "launch/form.h"
#include "recipe/events.h"
#include "tests/unit/tap.h"

#include <ctype.h>
#include <string.h>

static const struct rp_form_opts usual = {.name = "my-run", .image = "registry.example/repro:1", .recipe = "bert_fp32",
                                          .nodes = 3, .ranks_per_node = 4, .gpus_per_node = 4};

static int is_manifest(const struct rp_form *f)
{
    return strstr(f->file, ".yaml") != NULL;
}

/* ---- YAML as JSON ---- */

static json_t *read_node(struct rp_events *r, const struct rp_event *first)
{
    struct rp_event e;
    if (first->type == YAML_SCALAR_EVENT) {
        const size_t digits = strspn(first->text, "0123456789");
        if (first->plain && digits && !first->text[digits])
            return json_integer(strtoll(first->text, NULL, *first->text == '0' ? 8 : 10));
        if (first->plain && (strcmp(first->text, "true") == 0 || strcmp(first->text, "false") == 0))
            return json_boolean(*first->text == 't');
        return json_string(first->text);
    }
    const int mapping = first->type == YAML_MAPPING_START_EVENT;
    json_t *out = mapping ? json_object() : json_array();
    while (rp_events_next(r, &e) == 0 && e.type != YAML_MAPPING_END_EVENT && e.type != YAML_SEQUENCE_END_EVENT) {
        if (!mapping) {
            json_array_append_new(out, read_node(r, &e));
            rp_event_fini(&e);
            continue;
        }
        struct rp_event value;
        if (rp_events_next(r, &value) < 0)
            break;
        json_object_set_new_nocheck(out, e.text, read_node(r, &value));
        rp_event_fini(&value);
        rp_event_fini(&e);
    }
    return out;
}

/* One document after the other, as kubectl reads them. */
static json_t *read_documents(const char *text, struct rp_err *err)
{
    json_t *all = json_array();
    for (const char *at = text; *at;) {
        const char *end = strstr(at, "\n---\n");
        const size_t n = end ? (size_t)(end + 1 - at) : strlen(at);
        struct rp_events r;
        struct rp_event root = {.type = YAML_MAPPING_START_EVENT};
        if (rp_events_open(&r, at, n, "manifest", "manifest", err) < 0 || rp_events_begin(&r, "an object") < 0)
            return all;
        json_array_append_new(all, read_node(&r, &root));
        if (rp_events_end(&r) < 0)
            json_array_clear(all);
        rp_events_close(&r);
        at += n + (end ? 4 : 0);
    }
    return all;
}

/* ---- what the API requires ---- */

/* PATH TYPE, and =VALUE where it must be that; of the manifest with this kind. */
static const struct {
    const char *form, *kind, *path, *value;
} required[] = {
    {"k8s-indexed-job", "Service", "apiVersion", "\"v1\""},
    {"k8s-indexed-job", "Service", "metadata/name", "\"my-run\""},
    {"k8s-indexed-job", "Service", "spec/clusterIP", "\"None\""},
    {"k8s-indexed-job", "Service", "spec/publishNotReadyAddresses", "true"},
    {"k8s-indexed-job", "Service", "spec/selector/job-name", "\"my-run\""},
    {"k8s-indexed-job", "Job", "apiVersion", "\"batch/v1\""},
    {"k8s-indexed-job", "Job", "spec/completionMode", "\"Indexed\""},
    {"k8s-indexed-job", "Job", "spec/completions", "3"},
    {"k8s-indexed-job", "Job", "spec/parallelism", "3"},
    {"k8s-indexed-job", "Job", "spec/backoffLimit", "0"},
    {"k8s-indexed-job", "Job", "spec/template/spec/subdomain", "\"my-run\""},
    {"k8s-indexed-job", "Job", "spec/template/spec/restartPolicy", "\"Never\""},
    {"k8s-jobset", "JobSet", "apiVersion", "\"jobset.x-k8s.io/v1alpha2\""},
    {"k8s-jobset", "JobSet", "spec/network/publishNotReadyAddresses", "true"},
    {"k8s-jobset", "JobSet", "spec/network/enableDNSHostnames", "true"},
    {"k8s-jobset", "JobSet", "spec/network/subdomain", "\"my-run\""},
    {"k8s-jobset", "JobSet", "spec/failurePolicy/maxRestarts", "0"},
    {"k8s-jobset", "JobSet", "spec/replicatedJobs/0/name", "\"node\""},
    {"k8s-jobset", "JobSet", "spec/replicatedJobs/0/replicas", "1"},
    {"k8s-jobset", "JobSet", "spec/replicatedJobs/0/template/spec/completions", "3"},
    {"k8s-jobset", "JobSet", "spec/replicatedJobs/0/template/spec/template/spec/restartPolicy", "\"Never\""},
    {"kubeflow-pytorchjob", "PyTorchJob", "apiVersion", "\"kubeflow.org/v1\""},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/nprocPerNode", "\"4\""},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/runPolicy/backoffLimit", "0"},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Master/replicas", "1"},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Master/restartPolicy", "\"Never\""},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Worker/replicas", "2"},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Worker/restartPolicy", "\"Never\""},
    {"kubeflow-mpijob", "MPIJob", "apiVersion", "\"kubeflow.org/v2beta1\""},
    {"kubeflow-mpijob", "MPIJob", "spec/slotsPerWorker", "4"},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiImplementation", "\"OpenMPI\""},
    {"kubeflow-mpijob", "MPIJob", "spec/runPolicy/backoffLimit", "0"},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Launcher/replicas", "1"},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Launcher/restartPolicy", "\"Never\""},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/image",
     "\"registry.example/repro:1\""},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Worker/replicas", "3"},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Worker/restartPolicy", "\"Never\""},
    {"kubeflow-trainer", "TrainJob", "apiVersion", "\"trainer.kubeflow.org/v1alpha1\""},
    {"kubeflow-trainer", "TrainJob", "spec/runtimeRef/name", "\"torch-distributed\""},
    {"kubeflow-trainer", "TrainJob", "spec/trainer/numNodes", "3"},
    {"kubeflow-trainer", "TrainJob", "spec/trainer/numProcPerNode", "4"},
    {"kubeflow-trainer", "TrainJob", "spec/trainer/image", "\"registry.example/repro:1\""},
    {"kubeflow-trainer", "TrainJob", "spec/trainer/resourcesPerNode/limits/nvidia.com~1gpu", "\"4\""},
    {"kubeflow-trainer", "TrainJob", "spec/trainer/env/0/valueFrom/secretKeyRef/name", "\"my-run-key\""},
};

/* Where pods are. container "worker": mpirun starts the ranks in it. */
static const struct {
    const char *form, *kind, *path, *container, *join;
} pods[] = {
    {"k8s-indexed-job", "Job", "spec/template/spec", "repro", "my-run-0.my-run"},
    {"k8s-jobset", "JobSet", "spec/replicatedJobs/0/template/spec/template/spec", "repro", "my-run-node-0-0.my-run"},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Master/template/spec", "pytorch", NULL},
    {"kubeflow-pytorchjob", "PyTorchJob", "spec/pytorchReplicaSpecs/Worker/template/spec", "pytorch", NULL},
    {"kubeflow-mpijob", "MPIJob", "spec/mpiReplicaSpecs/Worker/template/spec", "worker", NULL},
};

/* rp_json_at(), with ~1 for a slash in a key */
static const json_t *at_path(const json_t *j, const char *path)
{
    char key[80];
    for (const char *p = path; j && *p; p += *p == '/') {
        const size_t n = strcspn(p, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, p);
        p += n;
        char *slash = strstr(key, "~1");
        if (slash) {
            *slash = '/';
            memmove(slash + 1, slash + 2, strlen(slash + 2) + 1);
        }
        j = json_is_array(j) ? json_array_get(j, (size_t)strtoul(key, NULL, 10)) : json_object_get(j, key);
    }
    return j;
}

static json_t *documents_of(const char *form, const struct rp_form_opts *o)
{
    struct rp_err err = {0};
    RP_BUF text = {0};
    CHECK(rp_form_write(&text, form, o, &err) == 0, "%s: %s", form, err.msg);
    json_t *all = read_documents(rp_buf_text(&text), &err);
    CHECK(json_array_size(all) > 0, "%s: %s", form, err.msg);
    return all;
}

static const json_t *document_of(const json_t *all, const char *kind)
{
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strcmp(rp_json_text_at(json_array_get(all, i), "kind"), kind) == 0)
            return json_array_get(all, i);
    return NULL;
}

TEST(manifests)
{
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        RP_JSON *all = documents_of(required[i].form, &usual);
        RP_BUF text = {0};
        const json_t *value = at_path(document_of(all, required[i].kind), required[i].path);
        if (!CHECK(value, "%s %s: no %s", required[i].form, required[i].kind, required[i].path))
            continue;
        RP_JSON *wrapped = json_pack("[O]", value);
        rp_json_write_line(&text, wrapped);
        text.data[text.size - 2] = 0;
        CHECK(strcmp(text.data + 1, required[i].value) == 0, "%s %s: %s, expected %s", required[i].form,
              required[i].path, text.data + 1, required[i].value);
    }
}

/* The key as a file of a Secret, memory to share, GPUs, and the command. */
static void check_pod(const json_t *pod, size_t i)
{
    const json_t *container = at_path(pod, "containers/0");
    const char *form = pods[i].form;
    const int by_mpirun = strcmp(pods[i].container, "worker") == 0;
    int key = 0, shm = 0, mounts = 0, join = 0, key_option = 0;
    size_t k;
    json_t *v;
    json_array_foreach(json_object_get(pod, "volumes"), k, v) {
        key += strcmp(rp_json_text_at(v, "secret/secretName"), "my-run-key") == 0 &&
               rp_json_integer_at(v, "secret/defaultMode") == 0440;
        shm += strcmp(rp_json_text_at(v, "emptyDir/medium"), "Memory") == 0;
    }
    json_array_foreach(json_object_get(container, "volumeMounts"), k, v) {
        mounts += strcmp(rp_json_text_at(v, "mountPath"), "/run/repro") == 0 ||
                  strcmp(rp_json_text_at(v, "mountPath"), "/dev/shm") == 0;
    }
    json_array_foreach(json_object_get(container, "args"), k, v)
    {
        const char *next = json_string_value(json_array_get(json_object_get(container, "args"), k + 1));
        key_option |= strcmp(json_string_value(v), "--job-key") == 0 && next && strcmp(next, "/run/repro/key") == 0;
        join |= pods[i].join && strcmp(json_string_value(v), "--join") == 0 && next && strcmp(next, pods[i].join) == 0;
    }
    CHECK(key == 1 && shm == 1 && mounts == 2 && key_option != by_mpirun,
          "%s: key %d, shared memory %d, mounts %d, option %d", form, key, shm, mounts, key_option);
    CHECK(join == (pods[i].join != NULL), "%s: --join", form);
    CHECK_STR(rp_json_text_at(container, "name"), pods[i].container);
    CHECK_STR(rp_json_text_at(container, "image"), "registry.example/repro:1");
    const json_t *gpus = at_path(container, "resources/limits/nvidia.com~1gpu");
    CHECK(gpus && strcmp(json_string_value(gpus), "4") == 0, "%s: GPUs", form);
    const json_t *command = json_object_get(container, "command");
    CHECK((command == NULL) == by_mpirun, "%s: a command", form);
    for (k = 0; command && k < 7; k++)
        CHECK_STR(json_string_value(json_array_get(command, k)),
                  ((const char *const[]){"repro", "run", "bert_fp32", "--nodes", "3", "--ranks-per-node", "4"})[k]);
}

TEST(pods_have)
{
    for (size_t i = 0; i < sizeof pods / sizeof *pods; i++) {
        RP_JSON *all = documents_of(pods[i].form, &usual);
        const json_t *pod = at_path(document_of(all, pods[i].kind), pods[i].path);
        if (CHECK(pod, "%s: no pod", pods[i].form))
            check_pod(pod, i);
    }
}

/* Without GPUs, and on one node. */
TEST(smaller)
{
    struct rp_form_opts o = usual;
    o.gpus_per_node = 0;
    o.nodes = 1;
    for (const struct rp_form *f = rp_forms; f->id; f++) {
        struct rp_err err = {0};
        RP_BUF text = {0};
        CHECK(rp_form_write(&text, f->id, &o, &err) == 0, "%s: %s", f->id, err.msg);
        CHECK(!strstr(text.data, "gpu") && !strstr(text.data, "--nv"), "%s: GPUs", f->id);
        CHECK(!strstr(text.data, "Worker:") || strcmp(f->id, "kubeflow-mpijob") == 0, "%s: workers", f->id);
        if (is_manifest(f)) {
            RP_JSON *all = documents_of(f->id, &o);
            CHECK(json_array_size(all) >= 1, "%s", f->id);
        }
    }
}

TEST(complete)
{
    for (const struct rp_form *f = rp_forms; f->id; f++) {
        struct rp_err err = {0};
        RP_BUF text = {0};
        CHECK(rp_form_write(&text, f->id, &usual, &err) == 0, "%s: %s", f->id, err.msg);
        for (const char *at = text.data; (at = strchr(at, '@')); at++)
            CHECK(!isupper((unsigned char)at[1]), "%s: not replaced: %.20s", f->id, at);
        CHECK(strstr(text.data, "bert_fp32") && strstr(text.data, "my-run"), "%s", f->id);
        CHECK(strstr(text.data, "REPRO_JOB_KEY") || strstr(text.data, "--job-key") || strcmp(f->id, "ssh") == 0,
              "%s: no key", f->id);
        CHECK(is_manifest(f) ? *text.data == '#' : strncmp(text.data, "#!/bin/sh\n", 10) == 0, "%s: its beginning",
              f->id);
    }
}

TEST(refused)
{
    static const struct {
        const char *form;
        struct rp_form_opts o;
    } bad[] = {{"lsf", {.name = "a", .recipe = "b"}},
               {"k8s-jobset", {.name = "a", .recipe = "b"}}, /* no image */
               {"srun", {.name = "My_Run", .recipe = "b"}},
               {"srun", {.name = "a-", .recipe = "b"}},
               {"srun", {.name = "", .recipe = "b"}},
               {"srun", {.name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", .recipe = "b"}},
               {"srun", {.name = "a", .recipe = "b; rm x"}},
               {"srun", {.name = "a", .recipe = "-o"}},
               {"srun", {.name = "a", .recipe = ""}},
               {"sbatch-pyxis", {.name = "a", .recipe = "b", .image = "a'b"}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_err err = {0};
        RP_BUF text = {0};
        struct rp_form_opts o = bad[i].o;
        o.nodes = o.ranks_per_node = 2;
        REFUSED(rp_form_write(&text, bad[i].form, &o, &err) < 0 && err.code == RP_USAGE, err.msg);
    }
}

TEST(apptainer_images)
{
    static const char *const images[][2] = {
        {"nvcr.io/nvidia/pytorch:24.05-py3", "'docker://nvcr.io/nvidia/pytorch:24.05-py3'"},
        {"./image.sif", "'./image.sif'"},
        {"oras://r.example/x", "'oras://r.example/x'"}};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        struct rp_form_opts o = usual;
        struct rp_err err = {0};
        RP_BUF text = {0};
        o.image = images[i][0];
        CHECK(rp_form_write(&text, "sbatch-apptainer", &o, &err) == 0 && strstr(text.data, images[i][1]), "%s",
              images[i][0]);
    }
}
