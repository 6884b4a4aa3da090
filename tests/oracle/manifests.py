"""The printed manifests of Kubernetes and Kubeflow against schemas from outside: those of Kubernetes itself, and the models of Kubeflow's SDKs.

usage: manifests.py REPRO      kubernetes-validate, kubeflow-trainer-api (which has JobSet too) and kubeflow-training come from pip

An MPIJob of v2beta1 has no SDK there: the names of its fields are those of the CRD in deploy/v2beta1/mpi-operator.yaml of kubeflow/mpi-operator, and
what it has in common with other jobs of Kubeflow is checked as theirs is.
"""

import re
import subprocess
import sys

import kubernetes.client.models
import kubernetes_validate
import yaml
from kubeflow.training import models as training
from kubeflow_trainer_api import models as trainer

# "spec" of an MPIJob: types as check_generated() knows them.
MPIJOB = {
    "launcherCreationPolicy": "str",
    "mpiImplementation": "str",
    "mpiReplicaSpecs": "dict(str, KubeflowOrgV1ReplicaSpec)",
    "runLauncherAsWorker": "bool",
    "runPolicy": "KubeflowOrgV1RunPolicy",
    "slotsPerWorker": "int",
    "sshAuthMountPath": "str",
}
MPIJOB_VALUES = {"launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"), "mpiImplementation": ("OpenMPI", "Intel", "MPICH")}

# What belongs to Kubernetes itself is validated against each of these releases.
RELEASES = ("1.28", "1.31", "1.34")


def refuse(where, what):
    raise SystemExit(f"manifests: {where}: {what}")


def model_of(name):
    for package in (training, kubernetes.client.models):
        if hasattr(package, name):
            return getattr(package, name)
    refuse(name, "no such type")


def check_generated(value, kind, where):
    """A value against a type of OpenAPI's generator for Python: 'str', 'list[V1Container]', 'dict(str, str)', 'V1PodSpec'."""
    simple = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}
    if (inner := re.fullmatch(r"list\[(.*)\]", kind)) is not None:
        if not isinstance(value, list):
            refuse(where, "not a list")
        for i, one in enumerate(value):
            check_generated(one, inner[1], f"{where}[{i}]")
    elif (inner := re.fullmatch(r"dict\(str, (.*)\)", kind)) is not None:
        if not isinstance(value, dict):
            refuse(where, "not a map")
        for key, one in value.items():
            check_generated(one, inner[1], f"{where}.{key}")
    elif kind in simple:
        if not isinstance(value, simple[kind]) or (kind == "int" and isinstance(value, bool)):
            refuse(where, f"{value!r} is not {kind}")
    else:
        model = model_of(kind)
        names = {alias: name for name, alias in model.attribute_map.items()}
        if not isinstance(value, dict):
            refuse(where, f"not {kind}")
        for key, one in value.items():
            if key not in names:
                refuse(where, f"{kind} has no '{key}'")
            check_generated(one, model.openapi_types[names[key]], f"{where}.{key}")


def check_pydantic(value, model, where):
    """All that is written has to be read: what comes back without a field had one that the model does not know."""
    again = model.from_dict(value).to_dict()

    def compare(a, b, at):
        if isinstance(a, dict):
            for key, one in a.items():
                if not isinstance(b, dict) or key not in b:
                    refuse(at, f"'{key}' is not known")
                compare(one, b[key], f"{at}.{key}")
        elif isinstance(a, list):
            if not isinstance(b, list) or len(a) != len(b):
                refuse(at, "another list")
            for i, (x, y) in enumerate(zip(a, b)):
                compare(x, y, f"{at}[{i}]")
        elif a != b:
            refuse(at, f"{a!r} became {b!r}")

    compare(value, again, where)


def check_core(document, where):
    for release in RELEASES:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except kubernetes_validate.ValidationError as e:
            refuse(where, f"Kubernetes {release}: {e.message} at {'.'.join(str(x) for x in e.path)}")


def check_template(template, where):
    """The template of a pod as that of a Job, which Kubernetes itself knows."""
    check_core({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": template}}, where)


def check_replicas(replicas, where):
    for replica, spec in replicas.items():
        template = dict(spec["template"])
        template["spec"] = {"restartPolicy": "Never", **template["spec"]}
        check_template(template, f"{where}: {replica}")


def check_mpijob(document, where):
    if document["apiVersion"] != "kubeflow.org/v2beta1" or set(document) != {"apiVersion", "kind", "metadata", "spec"}:
        refuse(where, f"{sorted(document)} are not the fields of an MPIJob of v2beta1")
    check_generated(document["metadata"], "V1ObjectMeta", where)
    for key, value in document["spec"].items():
        if key not in MPIJOB:
            refuse(where, f"spec has no '{key}'")
        check_generated(value, MPIJOB[key], f"{where}.spec.{key}")
        if value not in MPIJOB_VALUES.get(key, (value,)):
            refuse(where, f"{key}: '{value}' is not one of {MPIJOB_VALUES[key]}")
    if set(document["spec"]["mpiReplicaSpecs"]) != {"Launcher", "Worker"}:
        refuse(where, "not a launcher and workers")
    check_replicas(document["spec"]["mpiReplicaSpecs"], where)


def check(document, where):
    kind = document["kind"]
    if kind in ("Job", "Service", "Secret", "ConfigMap"):
        check_core(document, where)
    elif kind == "JobSet":
        check_pydantic(document, trainer.JobsetV1alpha2JobSet, where)
        for job in document["spec"]["replicatedJobs"]:
            check_core({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": job["template"]["spec"]}, where)
    elif kind == "TrainJob":
        check_pydantic(document, trainer.TrainerV1alpha1TrainJob, where)
    elif kind == "PyTorchJob":
        check_generated(document, "KubeflowOrgV1PyTorchJob", where)
        check_replicas(document["spec"]["pytorchReplicaSpecs"], where)
    elif kind == "MPIJob":
        check_mpijob(document, where)
    else:
        refuse(where, f"no schema for {kind}")
    return kind


def bites(document):
    """A field that no schema has is refused, wherever it is."""
    for path in ((), ("spec",), ("metadata",)):
        spoiled = yaml.safe_load(yaml.safe_dump(document))
        at = spoiled
        for key in path:
            at = at[key]
        at["notAField"] = 1
        try:
            check(spoiled, "spoiled")
        except SystemExit:
            continue
        refuse(document["kind"], f"a field 'notAField' in '{'.'.join(path)}' was accepted")


def main(repro):
    kinds = []
    for form in ("k8s-indexed-job", "k8s-jobset", "kubeflow-pytorchjob", "kubeflow-mpijob", "kubeflow-trainer"):
        for gpus in ("0", "4"):
            for nodes in ("1", "3"):
                options = ["--image", "registry.example/repro:1", "--nodes", nodes, "--ranks-per-node", "4", "--gpus-per-node", gpus, "--recipe", "bert_fp32"]
                text = subprocess.run([repro, "launch", form, *options], check=True, capture_output=True, text=True).stdout
                documents = [d for d in yaml.safe_load_all(text) if d]
                kinds.append([check(d, f"{form}, {nodes} nodes, {gpus} GPUs") for d in documents])
                for d in documents:
                    bites(d)
    print(f"manifests: {sum(map(len, kinds))} documents of {len(set(sum(kinds, [])))} kinds fit the schemas of Kubernetes {', '.join(RELEASES)}, JobSet and Kubeflow")


main(sys.argv[1])
