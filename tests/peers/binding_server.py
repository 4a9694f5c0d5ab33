"""A launcher in Python: a server with the functions of a host, which runs binding.py as the two ranks of a job."""
import os
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")  # the binding's own use of threads
import pmix

JOB = "python-job"
RANKS = 2
seen = []


def must(status, what):
    if status not in (pmix.PMIX_SUCCESS, pmix.PMIX_OPERATION_SUCCEEDED):
        sys.exit(f"{what}: {status}")


def connected(proc, *_):
    seen.append(("connected", proc["rank"]))
    return pmix.PMIX_OPERATION_SUCCEEDED


def finalized(proc, *_):
    seen.append(("finalized", proc["rank"]))
    return pmix.PMIX_OPERATION_SUCCEEDED


def info(key, value, kind):
    return {"key": key, "flags": 0, "value": value, "val_type": kind}


server = pmix.PMIxServer()
host = {"clientconnected": connected, "clientfinalized": finalized}
must(server.init([], host), "init")
status, nodes = server.generate_regex(["here"])
must(status, "generate_regex")
status, ranks = server.generate_ppn([",".join(str(rank) for rank in range(RANKS))])
must(status, "generate_ppn")
job = [
    info(pmix.PMIX_NODE_MAP, nodes, pmix.PMIX_STRING),
    info(pmix.PMIX_PROC_MAP, ranks, pmix.PMIX_STRING),
    info(pmix.PMIX_JOB_SIZE, RANKS, pmix.PMIX_UINT32),
    info(pmix.PMIX_UNIV_SIZE, RANKS, pmix.PMIX_UINT32),
]
must(server.register_nspace(JOB, RANKS, job), "register_nspace")
tasks = []
for rank in range(RANKS):
    proc = {"nspace": JOB, "rank": rank}
    must(server.register_client(proc, os.getuid(), os.getgid()), "register_client")
    environment = dict(os.environ)
    must(server.setup_fork(proc, environment), "setup_fork")
    task = [sys.executable, os.path.join(os.path.dirname(__file__), "binding.py")]
    tasks.append(subprocess.Popen(task, env=environment))
statuses = [task.wait() for task in tasks]
print(f"Python host: ranks ended with {statuses}, upcalls {sorted(seen)}", flush=True)
must(server.finalize(), "finalize")
