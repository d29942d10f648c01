# SPDX-License-Identifier: BSD-3-Clause
"""Deliberate mistakes, each of which the simulation must find: (name, file, text of the file, replacement)."""

MUTANTS = (
    ('Compare and Write takes no lock', 'target/nvmf/range_lock.c',
     'if ((x->excl || y->excl) && x->from < y->to && y->from < x->to)', 'if (x == y)'),
    ('FUA is forgotten', 'target/cmd/cmd_io.c',
     'rdt_io_fill(req, RDT_BIO_WRITE, rdt_io_slba(req), rdt_io_nlb(req), req->buf);',
     'rdt_io_fill(req, RDT_BIO_WRITE, rdt_io_slba(req), rdt_io_nlb(req), req->buf);\n\treq->bio.flags = 0;'),
    ('Flush does nothing', 'target/cmd/cmd_io.c', 'return rdt_io_step_flush(req);', 'return RDT_STEP_DONE;'),
    ('a write stores the block before', 'target/cmd/cmd_io.c',
     'rdt_io_fill(req, RDT_BIO_WRITE, rdt_io_slba(req), rdt_io_nlb(req), req->buf);',
     'rdt_io_fill(req, RDT_BIO_WRITE, rdt_io_slba(req) ? rdt_io_slba(req) - 1 : 0, rdt_io_nlb(req), req->buf);'),
    ('a Compare that fails lets its Write pass', 'target/cmd/compare.c',
     'req->status = nvme_status_dnr(NVME_SCT_MEDIA, NVME_SC_COMPARE_FAILED);', ';'),
    ('a controller without keep-alive lives on', 'target/nvmf/keep_alive.c', 'bool again = seen ||', 'bool again = true ||'),
    ('a lost Compare and Write is sent again', 'initiator/lib/dev_io.c',
     '.has_data = true, .changes_blocks = true},', '.has_data = true, .changes_blocks = true, .repeatable = true},'),
    ('commands have no time limit', 'initiator/lib/request.c',
     'if (too_late(q, req, now) && !(q->overdue && q->overdue(q, req))) {', 'if (now == 0) {'),
    ('the memory of a command stays open to the target', 'initiator/lib/request.c',
     'rdi_unmap(q, req, c->err == 0);\n\tTAILQ_REMOVE(&q->busy, req, link);', 'TAILQ_REMOVE(&q->busy, req, link);'),
    ('a RECV is posted once only', 'target/transport/rdma/rdma_recv.c',
     'if (!rc->closing && post_own(rc, recv))', 'if (rc->qp.qid && !rc->closing && qp->used > 3)\n\t\t\treturn;\n'
     '\t\tif (!rc->closing && post_own(rc, recv))'),
    ('an aborted write counts as done', 'target/nvmf/status.c', 'case ECANCELED:',
     'case ECANCELED:\n\t\treturn nvme_status(NVME_SCT_GENERIC, NVME_SC_SUCCESS);\n\tcase EL2HLT:'),
    ('a read returns the block after', 'target/cmd/cmd_io.c',
     'rdt_io_fill(req, RDT_BIO_READ, rdt_io_slba(req), rdt_io_nlb(req), req->buf);',
     'rdt_io_fill(req, RDT_BIO_READ, rdt_io_slba(req) + 1, rdt_io_nlb(req), req->buf);'),
)
