"""`ray-sim clusters`: list the bundled clusters."""

from __future__ import annotations

from ray_sim.cli.options import Json


def clusters(json_output: Json = False) -> None:
    """List the bundled clusters: servers, resources and purpose.

    Example: ray-sim clusters
    """
    from ray_sim.cli.console import print_json, print_table
    from ray_sim.experiments.cluster_summary import describe_cluster, purpose
    from ray_sim.experiments.inputs.cluster_file import bundled_clusters, load_cluster

    found = [(describe_cluster(load_cluster(path)), purpose(path)) for path in bundled_clusters().values()]
    if json_output:
        print_json([{**facts.to_dict(), "purpose": text} for facts, text in found])
        return
    print_table(
        ["cluster", "servers", "resources", "purpose"],
        [
            (
                facts.name,
                facts.servers,
                ", ".join(f"{total:,.15g} {name}" for name, total in facts.capacity.items()),
                text,
            )
            for facts, text in found
        ],
        title="ray-sim run --workload FILE --cluster CLUSTER",
    )
