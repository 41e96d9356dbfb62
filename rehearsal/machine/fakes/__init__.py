"""The stand-ins in a machine's own network: metadata server, DNS, package mirror, registry, Hub, Secret Manager.

They run in one process, started in the machine's namespaces before it boots; it dies with them. What they answer comes from
the rehearsal's own process over a Unix socket (`bridge`), so it can change while the machine lives.
"""
