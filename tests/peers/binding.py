"""Debian's Python binding of PMIx, as a rank: every rank puts a value, all fence, each reads every other's."""
import sys
import warnings

warnings.simplefilter("ignore")  # the binding's own use of threads
import pmix


def must(status, what):
    if status != pmix.PMIX_SUCCESS:
        sys.exit(f"{what}: {status}")


client = pmix.PMIxClient()
status, me = client.init([])
must(status, "init")
everyone = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}

status, size = client.get(everyone, pmix.PMIX_JOB_SIZE, [])
must(status, "job size")
text = {"value": f"of rank {me['rank']}", "val_type": pmix.PMIX_STRING}
must(client.put(pmix.PMIX_GLOBAL, "text", text), "put")
number = {"value": 10 * me["rank"], "val_type": pmix.PMIX_UINT32}
must(client.put(pmix.PMIX_GLOBAL, "number", number), "put")
must(client.commit(), "commit")
collect = {"key": pmix.PMIX_COLLECT_DATA, "flags": 0, "value": True, "val_type": pmix.PMIX_BOOL}
must(client.fence([everyone], [collect]), "fence")

for rank in range(size["value"]):
    peer = {"nspace": me["nspace"], "rank": rank}
    status, value = client.get(peer, "text", [])
    must(status, "get text")
    assert value["value"] in (f"of rank {rank}", f"of rank {rank}".encode()), value
    status, value = client.get(peer, "number", [])
    must(status, "get number")
    assert value["value"] == 10 * rank, value

must(client.fence([everyone], []), "fence")
if me["rank"] == 0:
    print(f"Python binding, {size['value']} ranks: right", flush=True)
must(client.finalize([]), "finalize")
