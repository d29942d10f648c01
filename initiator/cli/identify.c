/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * id-ctrl and id-ns. Field names, their order and the JSON keys are nvme-cli's, so that scripts
 * work with both.
 */
#include <endian.h>
#include <inttypes.h>
#include <linux/types.h>
#include <nvme/types.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "cli.h"
#include "command.h"
#include "fields.h"
#include "util/utf8.h"

#define CTRL(member, k)                                               \
	{                                                             \
#member, offsetof(struct nvme_id_ctrl, member),       \
			sizeof(((struct nvme_id_ctrl *)0)->member), k \
	}
#define NS(member, k)                                               \
	{                                                           \
#member, offsetof(struct nvme_id_ns, member),       \
			sizeof(((struct nvme_id_ns *)0)->member), k \
	}

static const struct cli_field ctrl_fields[] = {
	CTRL(vid, KIND_HEX),       CTRL(ssvid, KIND_HEX),     CTRL(sn, KIND_STR),
	CTRL(mn, KIND_STR),        CTRL(fr, KIND_STR),        CTRL(rab, KIND_DEC),
	CTRL(ieee, KIND_OUI),      CTRL(cmic, KIND_HEX),      CTRL(mdts, KIND_DEC),
	CTRL(cntlid, KIND_HEX),    CTRL(ver, KIND_HEX),       CTRL(rtd3r, KIND_HEX),
	CTRL(rtd3e, KIND_HEX),     CTRL(oaes, KIND_HEX),      CTRL(ctratt, KIND_HEX),
	CTRL(rrls, KIND_HEX),      CTRL(cntrltype, KIND_DEC), CTRL(fguid, KIND_UUID),
	CTRL(crdt1, KIND_DEC),     CTRL(crdt2, KIND_DEC),     CTRL(crdt3, KIND_DEC),
	CTRL(nvmsr, KIND_DEC),     CTRL(vwci, KIND_DEC),      CTRL(mec, KIND_DEC),
	CTRL(oacs, KIND_HEX),      CTRL(acl, KIND_DEC),       CTRL(aerl, KIND_DEC),
	CTRL(frmw, KIND_HEX),      CTRL(lpa, KIND_HEX),       CTRL(elpe, KIND_DEC),
	CTRL(npss, KIND_DEC),      CTRL(avscc, KIND_HEX),     CTRL(apsta, KIND_HEX),
	CTRL(wctemp, KIND_DEC),    CTRL(cctemp, KIND_DEC),    CTRL(mtfa, KIND_DEC),
	CTRL(hmpre, KIND_DEC),     CTRL(hmmin, KIND_DEC),     CTRL(tnvmcap, KIND_U128),
	CTRL(unvmcap, KIND_U128),  CTRL(rpmbs, KIND_HEX),     CTRL(edstt, KIND_DEC),
	CTRL(dsto, KIND_DEC),      CTRL(fwug, KIND_DEC),      CTRL(kas, KIND_DEC),
	CTRL(hctma, KIND_HEX),     CTRL(mntmt, KIND_DEC),     CTRL(mxtmt, KIND_DEC),
	CTRL(sanicap, KIND_HEX),   CTRL(hmminds, KIND_DEC),   CTRL(hmmaxd, KIND_DEC),
	CTRL(nsetidmax, KIND_DEC), CTRL(endgidmax, KIND_DEC), CTRL(anatt, KIND_DEC),
	CTRL(anacap, KIND_DEC),    CTRL(anagrpmax, KIND_DEC), CTRL(nanagrpid, KIND_DEC),
	CTRL(pels, KIND_DEC),      CTRL(domainid, KIND_DEC),  CTRL(megcap, KIND_U128),
	CTRL(sqes, KIND_HEX),      CTRL(cqes, KIND_HEX),      CTRL(maxcmd, KIND_DEC),
	CTRL(nn, KIND_DEC),        CTRL(oncs, KIND_HEX),      CTRL(fuses, KIND_HEX),
	CTRL(fna, KIND_HEX),       CTRL(vwc, KIND_HEX),       CTRL(awun, KIND_DEC),
	CTRL(awupf, KIND_DEC),     CTRL(icsvscc, KIND_DEC),   CTRL(nwpc, KIND_DEC),
	CTRL(acwu, KIND_DEC),      CTRL(ocfs, KIND_HEX),      CTRL(sgls, KIND_HEX),
	CTRL(mnan, KIND_DEC),      CTRL(maxdna, KIND_U128),   CTRL(maxcna, KIND_DEC),
	CTRL(subnqn, KIND_STR),    CTRL(ioccsz, KIND_DEC),    CTRL(iorcsz, KIND_DEC),
	CTRL(icdoff, KIND_DEC),    CTRL(fcatt, KIND_HEX),     CTRL(msdbd, KIND_DEC),
	CTRL(ofcs, KIND_DEC),
};

static const struct cli_field ns_fields[] = {
	NS(nsze, KIND_HEX),     NS(ncap, KIND_HEX),     NS(nuse, KIND_HEX),
	NS(nsfeat, KIND_HEX),   NS(nlbaf, KIND_DEC),    NS(flbas, KIND_HEX),
	NS(mc, KIND_HEX),       NS(dpc, KIND_HEX),      NS(dps, KIND_HEX),
	NS(nmic, KIND_HEX),     NS(rescap, KIND_HEX),   NS(fpi, KIND_HEX),
	NS(dlfeat, KIND_DEC),   NS(nawun, KIND_DEC),    NS(nawupf, KIND_DEC),
	NS(nacwu, KIND_DEC),    NS(nabsn, KIND_DEC),    NS(nabo, KIND_DEC),
	NS(nabspf, KIND_DEC),   NS(noiob, KIND_DEC),    NS(nvmcap, KIND_U128),
	NS(npwg, KIND_DEC),     NS(npwa, KIND_DEC),     NS(npdg, KIND_DEC),
	NS(npda, KIND_DEC),     NS(nows, KIND_DEC),     NS(mssrl, KIND_DEC),
	NS(mcl, KIND_DEC),      NS(msrc, KIND_DEC),     NS(nulbaf, KIND_DEC),
	NS(anagrpid, KIND_DEC), NS(nsattr, KIND_DEC),   NS(nvmsetid, KIND_DEC),
	NS(endgid, KIND_DEC),   NS(nguid, KIND_HEXSTR), NS(eui64, KIND_HEXSTR),
};

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* ---- id-ctrl ---- */

#define PSD(member, label) CLI_FIELD(nvme_id_psd, member, label, KIND_DEC)

static const struct cli_field psd_fields[] = {
	PSD(mp, "max_power"),
	PSD(flags, "flags"),
	PSD(enlat, "entry_lat"),
	PSD(exlat, "exit_lat"),
	PSD(rrt, "read_tput"),
	PSD(rrl, "read_lat"),
	PSD(rwt, "write_tput"),
	PSD(rwl, "write_lat"),
	PSD(idlp, "idle_power"),
	PSD(actp, "active_power"),
	CLI_BITS(nvme_id_psd, ips, "idle_scale", KIND_DEC, 6, 2),
	CLI_BITS(nvme_id_psd, apws, "active_power_work", KIND_DEC, 0, 3),
	CLI_BITS(nvme_id_psd, apws, "active_scale", KIND_DEC, 6, 2),
};

static json_t *power_states(const struct nvme_id_ctrl *id)
{
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i <= id->npss && i < N(id->psd); i++)
		json_array_append_new(list,
				      cli_fields_json(psd_fields, N(psd_fields), &id->psd[i]));
	return list;
}

static int json_id_ctrl(const struct nvme_id_ctrl *id)
{
	json_t *obj = cli_fields_json(ctrl_fields, N(ctrl_fields), id);

	json_object_set_new(obj, "psds", power_states(id));
	return cli_print_json(obj, stdout);
}

int cli_id_ctrl(const struct cli_options *opts)
{
	struct cli_session s;
	struct nvme_id_ctrl id;
	int rc;

	rc = cli_session_open(&s, opts);
	if (rc)
		return rc;
	rc = rdinit_identify_ctrl(s.ctrl, &id) ? cli_lib_error() : CLI_OK;
	cli_session_close(&s);
	if (rc)
		return rc;
	if (cli_given(opts, CLI_ARG_RAW))
		return cli_raw(&id, sizeof(id));
	if (opts->format == CLI_JSON)
		return json_id_ctrl(&id);
	printf("NVME Identify Controller:\n");
	cli_fields_print(ctrl_fields, N(ctrl_fields), &id, 9);
	return cli_finish_output();
}

/* ---- id-ns ---- */

unsigned int cli_lba_formats(const struct nvme_id_ns *id)
{
	unsigned int n = id->nlbaf + 1u;

	return n > N(id->lbaf) ? N(id->lbaf) : n;
}

unsigned int cli_lba_in_use(const struct nvme_id_ns *id)
{
	return (id->flbas & 0xf) | (id->nlbaf >= 16 ? (id->flbas >> 5 & 3u) << 4 : 0);
}

/*
 * The UUID in the namespace's descriptor list (CNS 03h) as text, or "" if there is none; nvme-cli
 * shows it in ns-descs.
 */
static void get_uuid(struct rdinit_ctrl *ctrl, uint32_t nsid, char *text)
{
	unsigned char list[RDINIT_IDENTIFY_SIZE];
	size_t at = 0;

	text[0] = '\0';
	if (rdinit_identify(ctrl, NVME_IDENTIFY_CNS_NS_DESC_LIST, nsid, list))
		return;
	while (at + 4 + 16 <= sizeof(list) && list[at + 1]) { /* NIDL 0 ends the list */
		if (list[at] == NVME_NIDT_UUID && list[at + 1] == 16) {
			uuid_unparse_lower(&list[at + 4], text);
			return;
		}
		at += 4u + list[at + 1];
	}
}

static int print_id_ns(const struct nvme_id_ns *id, uint32_t nsid, const char *uuid)
{
	unsigned int i;

	printf("NVME Identify Namespace %u:\n", nsid);
	cli_fields_print(ns_fields, N(ns_fields), id, 9);
	if (uuid[0])
		printf("%-9s : %s\n", "uuid", uuid);
	for (i = 0; i < cli_lba_formats(id); i++)
		printf("lbaf %2u : ms:%-3u lbads:%-2u rp:%#x%s\n", i, le16toh(id->lbaf[i].ms),
		       id->lbaf[i].ds, id->lbaf[i].rp & 3,
		       i == cli_lba_in_use(id) ? " (in use)" : "");
	return cli_finish_output();
}

static int json_id_ns(const struct nvme_id_ns *id, const char *uuid)
{
	json_t *obj = cli_fields_json(ns_fields, N(ns_fields), id);
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i < cli_lba_formats(id); i++)
		json_array_append_new(
			list, json_pack("{s:i, s:i, s:i}", "ms", (int)le16toh(id->lbaf[i].ms), "ds",
					(int)id->lbaf[i].ds, "rp", (int)(id->lbaf[i].rp & 3)));
	json_object_set_new(obj, "lbafs", list);
	if (uuid[0])
		json_object_set_new(obj, "uuid", json_string(uuid));
	return cli_print_json(obj, stdout);
}

int cli_identify_ns(struct cli_session *s, uint32_t nsid, struct nvme_id_ns *id)
{
	if (rdinit_identify_ns(s->ctrl, nsid, id))
		return cli_lib_error();
	if (id->ncap == 0)
		return cli_error(
			"%s: there is no namespace %u; `rdinit list-ns` lists the namespaces",
			s->info.address, nsid);
	return CLI_OK;
}

int cli_id_ns(const struct cli_options *opts)
{
	uint32_t nsid = opts->nsid ? opts->nsid : 1;
	struct nvme_id_ns id;
	struct cli_session s;
	char uuid[UUID_STR_LEN];
	int rc;

	rc = cli_session_open(&s, opts);
	if (rc)
		return rc;
	rc = cli_identify_ns(&s, nsid, &id);
	if (!rc)
		get_uuid(s.ctrl, nsid, uuid);
	cli_session_close(&s);
	if (rc)
		return rc;
	if (cli_given(opts, CLI_ARG_RAW))
		return cli_raw(&id, sizeof(id));
	return opts->format == CLI_JSON ? json_id_ns(&id, uuid) : print_id_ns(&id, nsid, uuid);
}
