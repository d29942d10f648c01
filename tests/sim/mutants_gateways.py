# SPDX-License-Identifier: BSD-3-Clause
"""Deliberate mistakes of gateways, which the simulation must find: (name, file, text of the file, replacement, and the
faults where it needs certain ones). The mistakes of the simulated librbd show that the product needs what the real one does."""

MUTANTS = (
    ('a gateway is replaced without being blocked', 'target/bdev/rbd_cluster.c', 'rados_conf_set(cl, "admin_socket", "");',
     'rados_conf_set(cl, "rbd_blocklist_on_break_lock", "false");'),
    ('the map that blocks a gateway is not awaited', 'tests/sim/gateways/rbd_locks.c', '\t\trc = client_get_map(o->client);',
     '\t\trc = 0;'),
    ('an image that is open again is served without its lock', 'target/bdev/rbd_image.c',
     'rbd_image_set_standby(img, img->lock_mode == RDT_RBD_LOCK_EXCLUSIVE);\n\trbd_image_settle_lock(img);',
     'rbd_image_set_standby(img, !img->opened);\n\trbd_image_settle_lock(img);'),
    ('a gateway that is silent is never replaced', 'target/bdev/rbd_peers.c',
     'return peer->missed < 2 || peer->silent_s + 1 < p->handle->takeover_s ? RBD_HEARD_NOT_YET',
     'return peer->missed ? RBD_HEARD_NOT_YET'),
    ('a write of which the effect is not known counts as refused', 'target/bdev/backend_rbd.c',
     'bio->status = NVME_SCT_PATH << 8 | NVME_SC_ANA_INTERNAL_PATH_ERROR;', ';'),
    ('a gateway with the lock stays in standby', 'target/bdev/rbd_lock.c', '\trbd_image_set_standby(img, false);', ''),
    ('reservations are stored that were made before the object was read again', 'target/bdev/rbd_shared.c',
     'if (atomic_load(&img->bdev.state_seq) != job->seq)', 'if (false)', 'yield,reserve,delay,off,block'),
    ('a reservation command of which the effect is not known counts as refused', 'target/bdev/rbd_shared.c',
     'return -ENOTCONN; /*', 'return -ESHUTDOWN; /*'),
    ('a gateway that was cut off answers reservation commands', 'target/nvmf/ns_resv.c',
     'if (!resv_is_shared(resv->ns)) {\n\t\tanswer_unchanged', 'if (true) {\n\t\tanswer_unchanged'),
    ('a gateway that gets the lock does not read the reservations', 'target/bdev/rbd_lock.c', '\trc = rbd_shared_load(img);', '\trc = 0;'),
)
