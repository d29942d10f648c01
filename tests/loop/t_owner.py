# SPDX-License-Identifier: BSD-3-Clause
"""A host that registers and reserves, for tests with several of them."""

import struct

import nvmf_peer as nv
from t_loop import NQN

REGISTER, REPORT, ACQUIRE, RELEASE = 0x0D, 0x0E, 0x11, 0x15
WE, EA, WE_RO, EA_RO, WE_AR, EA_AR = range(1, 7)
CONFLICT, ABORTED_PREEMPT = 0x083, 0x01B
CPTPL_CLEAR, CPTPL_PERSIST = 2 << 30, 3 << 30
PREEMPT, PREEMPT_ABORT = 1, 2
LOG_RESERVATION, FEAT_MASK, FEAT_PERSIST = 0x80, 0x82, 0x83
REG_PREEMPTED, RESV_RELEASED, RESV_PREEMPTED = 1, 2, 3


class Owner(nv.Host):
    """A host with an identity of its own and one I/O queue."""

    def __init__(self, target, number, **kw):
        self.number = number
        self.key = 0xC0FFEE0000000000 + number
        self.hostid = bytes([number]) * 16
        super().__init__(target.addr, target.port, NQN,
                         hostnqn=f'nqn.2014-08.org.nvmexpress:uuid:{number:08}-0000-4000-8000-'
                                 '000000000000', **kw)
        self.enable()
        self.q = self.add_io()

    def data(self, **kw):
        return nv.connect_data(self.subnqn, self.hostnqn, hostid=self.hostid, **kw)

    def register(self, action=0, *, cptpl=0, key=None, new=None):
        keys = struct.pack('<QQ', self.key if key is None else key, self.key if new is None else new)
        return self.q.data_out(REGISTER, keys, nsid=1, cdw10=action | cptpl)

    def acquire(self, rtype, action=0, prkey=0):
        return self.q.data_out(ACQUIRE, struct.pack('<QQ', self.key, prkey), nsid=1,
                               cdw10=action | rtype << 8)

    def release(self, rtype, action=0):
        return self.q.data_out(RELEASE, struct.pack('<Q', self.key), nsid=1, cdw10=action | rtype << 8)

    def report(self):
        """(generation, type, persists, {host number: (key, holder)})"""
        cqe, page = self.q.data_in(REPORT, 4096, nsid=1, cdw10=1023, cdw11=1)
        nv.expect(cqe)
        gen, rtype, count, persists = struct.unpack_from('<IBHxxB', page)
        hosts = {}
        for i in range(count):
            cntlid, status, key, host = struct.unpack_from('<HB5xQ16s', page, 64 + 64 * i)
            assert cntlid == 0xFFFF, cntlid
            hosts[host[0]] = (key, bool(status & 1))
        return gen, rtype, bool(persists), hosts

    def notification(self):
        """(count, type, left, nsid) of log page 80h"""
        cqe, page = self.admin.get_log(LOG_RESERVATION, 64, nsid=0)
        nv.expect(cqe)
        return struct.unpack_from('<QBBxxI', page)

    def write(self, lba=0, blocks=1):
        return self.q.write_blocks(1, lba, bytes([self.number]) * 512 * blocks).status

    def read(self, lba=0):
        return self.q.read_blocks(1, lba, 1)[0].status
