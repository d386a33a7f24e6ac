"""Each module with logic has a unit test file at the mirrored path, or another test file covers it.

A module has logic if one of its functions branches, loops or handles an exception. `COVERED_BY` lists the modules that
have no tests/unit/<package>/test_<module>.py, with the test file that covers them instead. That file must import the
module, or reach it in a few import steps. For the handler of an API it names the API instead, and for what runs in
another process the command: such a test calls it over the wire, or starts it as a process. `UNTESTED` lists the
modules without any test.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "ottla"
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.Match, ast.BoolOp, ast.comprehension)
HANDLER = re.compile(r"broker/handlers/k\d\d_(\w+)\.py")
STEPS_MAX = 3
NAMED_AS = {
    "broker/fetch/fetch_request.py": "fetch",
    "admin/records/clone.py": '"clone"',
    "broker/handlers/k01_fetch_metadata.py": "test_every_version_of_fetch_gets_a_response_on_the_controller_listener",
    "cli/admin/check.py": '"check"',
    "cli/local/secure.py": '"secure"',
    "cli/admin/cluster.py": '"cluster"',
    "cli/admin/completion.py": '"completion"',
    "cli/closed_pipe.py": "os.pipe",
    "cli/completion_values.py": "_OTTLA_COMPLETE",
    "cli/admin/contexts.py": "contexts",
    "cli/local/demo_session.py": "demo",
    "cli/admin/doctor.py": '"doctor"',
    "cli/admin/groups.py": '"groups"',
    "cli/progress.py": '"clone"',
    "cli/records/record_commands.py": '"consume"',
    "cli/admin/top.py": '"top"',
    "cli/admin/topics.py": '"topics"',
    "cli/admin/transactions.py": '"transactions"',
    "node/logs.py": "BrokerProcess",
    "node/security/authentication.py": "BrokerProcess",
    "node/main.py": "BrokerProcess",
    "pipelines/java/class_archive.py": "prepare",
    "scoreboard/devices.py": "demo",
    "node/metrics.py": "BrokerProcess",
}
"""Modules that tests run in another process, and what such a test names: the command, or a field of the request."""
UNTESTED = {
    "testing/cores/__main__.py": "prints the results of `make sim`",
    "testing/sim/command.py": "prints the results of `make sim`",
}

COVERED_BY = {
    "broker/handlers/k17_sasl_handshake.py": "tests/unit/broker/net/test_authentication.py",
    "node/security/authentication.py": "tests/integration/security/test_sasl_clients.py",
    "security/sasl/listener_values.py": "tests/unit/security/sasl/test_settings.py",
    "security/sasl/oauth/jwks.py": "tests/unit/security/sasl/oauth/test_jwt.py",
    "security/sasl/exchange.py": "tests/unit/security/sasl/test_plain.py",
    "broker/handlers/k41_describe_delegation_token.py": "tests/unit/broker/test_token_requests.py",
    "cli/local/secure.py": "tests/integration/security/test_secure_init.py",
    "broker/net/origin.py": "tests/unit/broker/test_router.py",
    "pipelines/io/corrupt_records.py": "tests/spark/test_pipelines.py",
    "admin/records/group_reader.py": "tests/integration/test_read_records.py",
    "testing/history/log_checks.py": "tests/unit/testing/history/test_history.py",
    "testing/history/observations.py": "tests/unit/testing/history/test_history.py",
    "admin/records/clone.py": "tests/integration/cli/test_topics.py",
    "admin/cluster.py": "tests/integration/cli/test_cluster.py",
    "admin/configs.py": "tests/integration/test_admin_topics.py",
    "admin/groups.py": "tests/integration/test_admin_groups.py",
    "admin/log_offsets.py": "tests/integration/test_admin_groups.py",
    "admin/offset_reset.py": "tests/integration/test_admin_groups.py",
    "admin/session.py": "tests/integration/test_admin_topics.py",
    "admin/topics.py": "tests/integration/test_admin_topics.py",
    "node/membership/founding.py": "tests/unit/node/quorum/test_replica.py",
    "node/settings/authorizer_config.py": "tests/unit/node/security/test_authorization.py",
    "node/settings/quorum_config.py": "tests/unit/node/settings/test_config.py",
    "node/quorum/controller_server.py": "tests/unit/node/quorum/test_replica.py",
    "node/quorum/controller_apis.py": "tests/unit/node/quorum/test_replica.py",
    "base/errors.py": "tests/unit/base/test_files.py",
    "base/ids.py": "tests/unit/node/test_build.py",
    "base/promise.py": "tests/unit/node/test_build.py",
    "base/rng.py": "tests/unit/testing/test_disk.py",
    "base/settled.py": "tests/unit/broker/forwarding/test_local_controller.py",
    "base/writer.py": "tests/contract/test_writer.py",
    "testing/fixtures/brokers.py": "tests/integration/fixtures/test_environment.py",
    "testing/fixtures/cluster_client.py": "tests/integration/fixtures/test_environment.py",
    "testing/fixtures/environment.py": "tests/integration/fixtures/test_environment.py",
    "testing/fixtures/messages.py": "tests/unit/testing/fixtures/test_refusals.py",
    "testing/fixtures/plugin.py": "tests/integration/fixtures/test_plugin.py",
    "testing/fixtures/wire_proxy.py": "tests/integration/fixtures/test_environment.py",
    "broker/handlers/k72_push_telemetry.py": "tests/integration/metrics/test_client_telemetry.py",
    "node/metrics.py": "tests/integration/metrics/test_endpoint.py",
    "broker/fetch/fetch_request.py": "tests/integration/test_limits.py",
    "broker/replica/followed.py": "tests/unit/broker/replica/test_fetchers.py",
    "broker/replica/leader_offsets.py": "tests/unit/broker/replica/test_fetchers.py",
    "broker/requirements.py": "tests/unit/broker/test_registry.py",
    "broker/handlers/k00_produce.py": "tests/unit/broker/produce/test_transactional_produce.py",
    "broker/handlers/k01_fetch_metadata.py": "tests/fault/test_hostile_frames.py",
    "broker/handlers/k01_fetch.py": "tests/compat/differential/chance.py",
    "broker/handlers/k30_create_acls.py": "tests/integration/test_acls.py",
    "broker/handlers/k31_delete_acls.py": "tests/integration/test_acls.py",
    "broker/handlers/k08_offset_commit.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k09_offset_fetch.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k10_find_coordinator.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k11_join_group.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k12_heartbeat.py": "tests/unit/broker/coordination/test_group_requests.py",
    "broker/handlers/k13_leave_group.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k14_sync_group.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k15_describe_groups.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k16_list_groups.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k18_api_versions.py": "tests/unit/broker/test_router.py",
    "broker/handlers/k19_create_topics.py": "tests/compat/differential/topics.py",
    "broker/handlers/k20_delete_topics.py": "tests/compat/differential/topics.py",
    "broker/handlers/k33_alter_configs.py": "tests/unit/broker/forwarding/test_config_resources.py",
    "broker/handlers/k37_create_partitions.py": "tests/compat/differential/topics.py",
    "broker/handlers/k44_incremental_alter_configs.py": "tests/unit/broker/forwarding/test_config_resources.py",
    "broker/handlers/k22_init_producer_id.py": "tests/integration/test_raw_client.py",
    "broker/handlers/k23_offset_for_leader_epoch.py": "tests/compat/differential/chance.py",
    "broker/handlers/k24_add_partitions_to_txn.py": "tests/compat/differential/transactions.py",
    "broker/handlers/k25_add_offsets_to_txn.py": "tests/compat/differential/transactions.py",
    "broker/handlers/k26_end_txn.py": "tests/integration/test_two_phase_commit.py",
    "broker/handlers/k27_write_txn_markers.py": "tests/compat/differential/transactional_records.py",
    "broker/handlers/k28_txn_offset_commit.py": "tests/unit/broker/coordination/test_group_requests.py",
    "broker/handlers/k34_alter_replica_log_dirs.py": "tests/integration/test_log_directories.py",
    "broker/handlers/k35_describe_log_dirs.py": "tests/fault/test_disk_faults.py",
    "broker/handlers/k42_delete_groups.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k47_offset_delete.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k52_vote.py": "tests/fault/test_hostile_frames.py",
    "broker/handlers/k53_begin_quorum_epoch.py": "tests/fault/test_hostile_frames.py",
    "broker/handlers/k54_end_quorum_epoch.py": "tests/fault/test_hostile_frames.py",
    "broker/handlers/k59_fetch_snapshot.py": "tests/fault/test_hostile_frames.py",
    "broker/handlers/k55_describe_quorum.py": "tests/compat/differential/cluster.py",
    "broker/handlers/k60_describe_cluster.py": "tests/integration/test_peer.py",
    "broker/handlers/k61_describe_producers.py": "tests/compat/differential/chance.py",
    "broker/handlers/k65_describe_transactions.py": "tests/integration/test_two_phase_commit.py",
    "broker/handlers/k66_list_transactions.py": "tests/compat/differential/transactions.py",
    "broker/handlers/k68_consumer_group_heartbeat.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k69_consumer_group_describe.py": "tests/contract/test_group_apis.py",
    "broker/handlers/k71_get_telemetry_subscriptions.py": "tests/compat/differential/cluster.py",
    "broker/handlers/k75_describe_topic_partitions.py": "tests/compat/differential/topics.py",
    "broker/leader_hints.py": "tests/unit/broker/produce/test_transactional_produce.py",
    "broker/net/edge.py": "tests/unit/broker/net/test_connection.py",
    "broker/net/limits.py": "tests/unit/broker/net/test_connection.py",
    "broker/net/read_buffers.py": "tests/unit/broker/test_router.py",
    "broker/net/server.py": "tests/unit/broker/net/test_connection.py",
    "broker/produce/appender.py": "tests/unit/broker/produce/test_transactional_produce.py",
    "broker/produce/bulk_produce.py": "tests/unit/storage/log/test_bulk_append.py",
    "broker/produce/bulk_reference.py": "tests/unit/storage/log/test_bulk_append.py",
    "broker/purgatory.py": "tests/unit/broker/test_router.py",
    "cli/admin/check.py": "tests/integration/cli/test_checks.py",
    "cli/admin/cluster.py": "tests/integration/cli/test_cluster.py",
    "cli/admin/completion.py": "tests/integration/cli/test_checks.py",
    "cli/completion_values.py": "tests/integration/cli/test_topics.py",
    "cli/admin/contexts.py": "tests/unit/cli/test_commands.py",
    "cli/local/demo_session.py": "tests/integration/test_demo.py",
    "cli/admin/doctor.py": "tests/integration/cli/test_checks.py",
    "cli/admin/groups.py": "tests/integration/cli/test_groups.py",
    "cli/closed_pipe.py": "tests/integration/cli/test_closed_pipe.py",
    "cli/main.py": "tests/unit/cli/pipelines/test_commands.py",
    "cli/progress.py": "tests/integration/cli/test_topics.py",
    "cli/records/record_commands.py": "tests/integration/cli/test_records.py",
    "cli/admin/top.py": "tests/integration/cli/test_checks.py",
    "cli/admin/topics.py": "tests/integration/cli/test_topics.py",
    "cli/admin/transactions.py": "tests/integration/cli/test_transactions.py",
    "cli/local/matches.py": "tests/integration/test_matches.py",
    "cli/pipelines/views.py": "tests/unit/cli/pipelines/test_commands.py",
    "client/parallel/assignment.py": "tests/unit/client/parallel/test_scheduler.py",
    "client/parallel/progress.py": "tests/unit/client/parallel/test_consumer.py",
    "client/raw/admin.py": "tests/unit/spark/sink/test_transactions.py",
    "client/raw/cache.py": "tests/unit/client/raw/test_cluster.py",
    "client/raw/errors.py": "tests/unit/client/raw/test_handshakes.py",
    "client/raw/fetch.py": "tests/unit/client/raw/test_cluster.py",
    "client/raw/metadata.py": "tests/unit/client/raw/test_cluster.py",
    "client/raw/offsets.py": "tests/unit/client/raw/test_cluster.py",
    "client/raw/transactions.py": "tests/unit/client/raw/test_producer.py",
    "cli/local/console.py": "tests/console/test_command.py",
    "console/web/app.py": "tests/console/test_http.py",
    "console/pages/cluster.py": "tests/console/test_http.py",
    "console/pages/groups.py": "tests/console/test_http.py",
    "console/pages/overview.py": "tests/console/test_http.py",
    "console/pages/pipelines.py": "tests/console/test_http.py",
    "console/pages/record.py": "tests/console/test_http.py",
    "console/pages/records.py": "tests/console/test_http.py",
    "console/pages/scoreboard.py": "tests/console/test_browser.py",
    "console/pages/topic.py": "tests/console/test_http.py",
    "console/pages/topics.py": "tests/console/test_http.py",
    "console/pages/transactions.py": "tests/console/test_http.py",
    "console/presentation/rendering.py": "tests/console/test_http.py",
    "console/web/server.py": "tests/console/test_http.py",
    "console/settings.py": "tests/unit/console/web/test_security.py",
    "console/web/stream.py": "tests/console/test_http.py",
    "config/checks.py": "tests/unit/config/test_key.py",
    "controller/settings/config_rules.py": "tests/unit/controller/partitions/test_topics.py",
    "controller/decision.py": "tests/unit/controller/test_runtime.py",
    "coordinator/group/assignors/balance.py": "tests/unit/coordinator/group/assignors/test_uniform.py",
    "coordinator/group/assignors/spec.py": "tests/unit/coordinator/group/assignors/test_range.py",
    "coordinator/group/consumer/consumer_member.py": "tests/unit/coordinator/group/consumer/test_reconciliation.py",
    "coordinator/group/consumer/consumer_records.py": "tests/unit/coordinator/group/consumer/test_consumer_group.py",
    "coordinator/group/consumer/replay.py": "tests/unit/coordinator/group/consumer/test_consumer_group.py",
    "coordinator/group/consumer/sessions.py": "tests/unit/coordinator/group/consumer/test_member_removal.py",
    "coordinator/group/offset_store.py": "tests/unit/coordinator/group/test_offset_manager.py",
    "coordinator/runtime/decision.py": "tests/unit/coordinator/runtime/test_codec.py",
    "coordinator/txn/table.py": "tests/unit/coordinator/txn/test_model.py",
    "coordinator/txn/txn_state_machine.py": "tests/unit/broker/test_registry.py",
    "node/membership/controller_link.py": "tests/unit/node/test_build.py",
    "pipelines/java/class_archive.py": "tests/unit/cli/pipelines/test_commands.py",
    "pipelines/java/process.py": "tests/unit/pipelines/test_session.py",
    "pipelines/runtime/query_reports.py": "tests/spark/test_pipelines.py",
    "pipelines/runtime/run_lock.py": "tests/unit/pipelines/runtime/test_runner.py",
    "quorum/raft/follower.py": "tests/unit/quorum/raft/test_core.py",
    "quorum/raft/outbound.py": "tests/unit/quorum/raft/test_core.py",
    "node/quorum/members.py": "tests/unit/node/quorum/test_replica.py",
    "quorum/raft/replica.py": "tests/unit/quorum/raft/test_core.py",
    "quorum/runtime/status.py": "tests/unit/quorum/runtime/test_delivery.py",
    "quorum/voter.py": "tests/unit/quorum/test_single.py",
    "records/_columns_reference.py": "tests/unit/records/test_columns.py",
    "records/_reference.py": "tests/unit/records/test_kernel.py",
    "records/aborted.py": "tests/unit/records/test_columns.py",
    "records/conversion.py": "tests/unit/records/test_validation.py",
    "scoreboard/devices.py": "tests/integration/test_demo.py",
    "scoreboard/feed.py": "tests/integration/test_matches.py",
    "scoreboard/pipeline.py": "tests/spark/test_pipelines.py",
    "spark/options.py": "tests/unit/spark/sink/test_options.py",
    "spark/register.py": "tests/unit/spark/test_data_source.py",
    "spark/sink/producer_cache.py": "tests/integration/test_sink_producers.py",
    "spark/sink/task_transaction.py": "tests/integration/test_sink_batches.py",
    "spark/source/spark_readers.py": "tests/unit/spark/test_data_source.py",
    "spark/updates.py": "tests/spark/test_pipelines.py",
    "spark/version.py": "tests/unit/spark/test_data_source.py",
    "storage/cleaning/cleaner_filter.py": "tests/unit/storage/cleaning/test_cleaner.py",
    "storage/cleaning/cleaner_job.py": "tests/unit/storage/cleaning/test_cleaner.py",
    "storage/commit/write_job.py": "tests/unit/storage/log/test_log.py",
    "storage/commit/write_queue.py": "tests/unit/storage/commit/test_group_commit.py",
    "storage/index/sparse_index.py": "tests/unit/storage/index/test_txn_index.py",
    "storage/log/appendable_log.py": "tests/unit/storage/log/test_log.py",
    "storage/log/log_config.py": "tests/unit/storage/log/test_log.py",
    "storage/log/log_files.py": "tests/unit/storage/log/test_segment.py",
    "storage/log/log_slice.py": "tests/unit/replication/test_partition.py",
    "storage/log/raw_reference.py": "tests/unit/storage/log/test_raw_append.py",
    "storage/log/readable_log.py": "tests/unit/storage/log/test_log.py",
    "storage/log/segments.py": "tests/unit/storage/log/test_log.py",
    "storage/log_dir.py": "tests/unit/storage/test_log_dirs.py",
    "storage/recovery/batch_scan.py": "tests/unit/storage/recovery/test_recovery.py",
    "storage/recovery/leftovers.py": "tests/unit/storage/recovery/test_recovery.py",
    "testing/cores/event_queue.py": "tests/simulation/test_quorum_core.py",
    "testing/cores/memory_log.py": "tests/unit/quorum/raft/test_core.py",
    "testing/cores/quorum.py": "tests/simulation/test_quorum_core.py",
    "testing/cores/voters.py": "tests/simulation/test_quorum_core.py",
    "testing/cores/partition_controller.py": "tests/simulation/test_replication_core.py",
    "testing/cores/replica_log.py": "tests/simulation/test_replication_core.py",
    "testing/cores/replication_checker.py": "tests/simulation/test_replication_core.py",
    "testing/cores/replication.py": "tests/simulation/test_replication_core.py",
    "testing/executor.py": "tests/unit/base/test_executor.py",
    "testing/sim/checkers/durability.py": "tests/simulation/test_cluster.py",
    "testing/sim/checkers/groups.py": "tests/simulation/test_checkers.py",
    "testing/sim/checkers/logs.py": "tests/simulation/test_hosts.py",
    "testing/sim/checkers/metadata.py": "tests/simulation/test_cluster.py",
    "testing/sim/checkers/offsets.py": "tests/simulation/test_checkers.py",
    "testing/sim/checkers/ownership.py": "tests/simulation/test_checkers.py",
    "testing/sim/checkers/replay.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/checkers/transaction_states.py": "tests/simulation/test_checkers.py",
    "testing/sim/checkers/transactions.py": "tests/simulation/test_checkers.py",
    "testing/sim/clients/admin.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/classic_member.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/client.py": "tests/unit/testing/sim/clients/test_member.py",
    "testing/sim/clients/client_set.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/consumer_member.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/copier.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/fetch.py": "tests/unit/testing/sim/clients/test_member.py",
    "testing/sim/clients/log_mover.py": "tests/simulation/test_log_moves.py",
    "testing/sim/clients/offset_client.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/process.py": "tests/unit/testing/sim/clients/test_member.py",
    "testing/sim/clients/producer_session.py": "tests/simulation/test_hosts.py",
    "testing/sim/clients/producers.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/readers.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/clients/reassigner.py": "tests/simulation/test_disk_losses.py",
    "testing/sim/clients/routes.py": "tests/unit/testing/sim/clients/test_member.py",
    "testing/sim/clients/two_phase.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/cluster.py": "tests/simulation/test_hosts.py",
    "testing/sim/cluster_faults.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/convergence.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/disk_faults.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/disk_losses.py": "tests/simulation/test_disk_losses.py",
    "testing/sim/kernel/disk.py": "tests/unit/testing/sim/kernel/test_host.py",
    "testing/sim/kernel/executor.py": "tests/unit/testing/sim/kernel/test_host.py",
    "testing/sim/kernel/loop.py": "tests/unit/testing/sim/kernel/test_host.py",
    "testing/sim/kernel/sockets.py": "tests/unit/testing/sim/kernel/test_network.py",
    "testing/sim/node.py": "tests/simulation/test_hosts.py",
    "testing/sim/run.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/scenario.py": "tests/unit/testing/sim/test_faults.py",
    "testing/sim/topology.py": "tests/simulation/test_cluster.py",
    "wire/source.py": "tests/unit/wire/test_decoder.py",
}
"""Modules below src/ottla without a mirrored test file, and the test file that covers each of them."""


def has_logic(path: Path) -> bool:
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return any(isinstance(node, BRANCHES) for function in functions for node in ast.walk(function))


def mirrored(module: str) -> Path:
    """The unit test file of a module."""
    path = Path(module)
    return ROOT / "tests" / "unit" / path.parent / f"test_{path.stem}.py"


def unmirrored() -> list[str]:
    """The modules with logic that have no unit test file at the mirrored path."""
    modules = (path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py")
    names = (path.relative_to(PACKAGE).as_posix() for path in modules if has_logic(path))
    return [name for name in names if not mirrored(name).is_file()]


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules of Ottla that a source imports, as dotted names; names of classes and functions are among them.

    What a test imports from `tests.support` counts with its imports.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    support = {ROOT / f"{name.replace('.', '/')}.py" for name in found if name.startswith("tests.support.")}
    further = {name for helper in support if helper.is_file() for name in imported(helper)}
    return frozenset(name for name in found | further if name.startswith("ottla."))


def dotted(module: str) -> str:
    return "ottla." + module.removesuffix(".py").replace("/", ".")


@cache
def importers(module: str) -> frozenset[str]:
    """The modules that import a module, as dotted names."""
    return frozenset(
        dotted(path.relative_to(PACKAGE).as_posix()).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if dotted(module) in imported(path)
    )


def imports_module(test: str, module: str) -> bool:
    return dotted(module) in imported(ROOT / test)


@cache
def within_reach(module: str) -> frozenset[str]:
    """The modules from which the module is reached in at most `STEPS_MAX` import steps, as dotted names."""
    found = frozenset({dotted(module)})
    for _ in range(STEPS_MAX):
        found |= {
            name
            for each in found
            for name in importers(each.removeprefix("ottla.").replace(".", "/") + ".py")
        }
    return found


def covers(test: str, module: str) -> bool:
    text, handler = (ROOT / test).read_text(), HANDLER.fullmatch(module)
    if module in NAMED_AS:
        return NAMED_AS[module] in text
    if handler is None or imports_module(test, module):
        return bool(within_reach(module) & imported(ROOT / test))
    if test.startswith("tests/unit/"):
        return False
    api = "".join(part.capitalize() for part in handler[1].split("_"))
    return re.search(rf"\b(?:{api}(?:Request)?|{handler[1]})\b", text) is not None


def test_each_module_with_logic_has_a_test_file_or_an_entry() -> None:
    missing = sorted(set(unmirrored()) - set(COVERED_BY) - set(UNTESTED))
    assert missing == [], "write tests/unit/<package>/test_<module>.py, or add an entry to COVERED_BY"


def test_no_entry_is_superfluous() -> None:
    superfluous = sorted((set(COVERED_BY) | set(UNTESTED)) - set(unmirrored()))
    assert superfluous == [], "the module has its own test file now, or does not exist any more"


def test_each_entry_names_a_test_that_covers_the_module() -> None:
    absent = {module: test for module, test in COVERED_BY.items() if not (ROOT / test).is_file()}
    assert absent == {}
    wrong = {module: test for module, test in COVERED_BY.items() if not covers(test, module)}
    assert wrong == {}, "the test file does not reach the module"
