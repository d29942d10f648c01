/* SPDX-License-Identifier: BSD-3-Clause */
/* An attached device: structures, and what the files of this folder use of each other. */
#ifndef RDI_ATTACH_INTERNAL_H
#define RDI_ATTACH_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "attach.h"

#define RDI_ATTACH_IO_MAX (128u << 10) /* bytes of one request */

/* ---- io.c: a request of the block device as commands of a channel ---- */

/* What the commands may have, in blocks. */
struct rdi_attach_limits {
	uint32_t block_size;
	uint32_t max_data;   /* of Read and Write */
	uint32_t max_zeroes; /* 0: not supported */
	uint32_t max_deallocate;
};

/*
 * One request, which is sent in parts, one after the other, where it is larger than a command. It
 * belongs to its driver. @done runs once, from rdinit_dev_chan_process() or from
 * rdinit_dev_chan_free(), with 0 or a negative errno value for the kernel.
 */
struct rdi_attach_io {
	enum rdinit_dev_op op;
	unsigned int flags;
	uint64_t lba;
	uint64_t left; /* blocks; 0 for a Flush */
	unsigned char *buf;
	void (*done)(struct rdi_attach_io *io, int err);
	/* of rdi_attach_io_start(): */
	struct rdinit_dev_chan *chan;
	const struct rdi_attach_limits *limits;
	uint32_t part; /* blocks of the command in flight */
};

/* Starts @io. Returns 0, or an error, after which @done does not run. */
int rdi_attach_io_start(struct rdi_attach_io *io, struct rdinit_dev_chan *chan,
			const struct rdi_attach_limits *limits);
void rdi_attach_limits_of(const struct rdinit_dev_info *info, struct rdi_attach_limits *out);

/* ---- queue.c: what the queues of both drivers have ---- */

struct rdi_attach_queue {
	struct rdi_attach *a;
	struct rdinit_dev_chan *chan; /* NULL after an abort */
	unsigned char *mem;           /* for data, registered with the channel */
	size_t mem_len;
	int wake; /* an eventfd, for rdi_attach_queue_woken() */
	pthread_t thread;
	bool started;
	atomic_bool abort; /* everything in flight ends with an error, and what comes later */
};

/*
 * Makes the channel, and @mem_len bytes. @what: the name of the queue in messages. Returns 0, or
 * -errno with a->why; rdi_attach_queue_join() and rdi_attach_queue_close() in both cases.
 */
int rdi_attach_queue_open(struct rdi_attach_queue *q, struct rdi_attach *a, size_t mem_len,
			  const char *what);
/* Starts the thread, which counts in a->threads until rdi_attach_queue_ended(), its last call. */
int rdi_attach_queue_start(struct rdi_attach_queue *q, void *(*fn)(void *arg), void *arg);
void rdi_attach_queue_ended(struct rdi_attach_queue *q);
/* Sets *@why, such as q->abort, and wakes the thread for it. Any thread. */
void rdi_attach_queue_wake(struct rdi_attach_queue *q, atomic_bool *why);
/* The thread was woken. After an abort: ends what is in flight. */
void rdi_attach_queue_woken(struct rdi_attach_queue *q);
/* Waits for the thread, which has been told to end, and ends what is in flight. */
void rdi_attach_queue_join(struct rdi_attach_queue *q);
void rdi_attach_queue_close(struct rdi_attach_queue *q);

/* ---- state.c: identifiers of namespaces ---- */

/*
 * The best identifier of a namespace, in characters that udev leaves as they are in names of links:
 * its UUID, else NGUID, else EUI-64, else NQN and NSID. Two namespaces have different ones, and the
 * names of links to partitions have at most 255 bytes.
 */
void rdi_attach_id(const struct rdinit_dev_info *ns, char id[RDI_ATTACH_ID]);

/* ---- state.c: the files of the state directory ---- */

struct rdi_attach_file {
	int dir;  /* the state directory; -1: not open */
	int lock; /* the lock of this device's file, held for as long as the process lives; -1 */
	char name[RDI_ATTACH_NAME];
};

/* Opens the directory, and makes it if @make says so. Returns it, or -errno with @why. */
int rdi_attach_dir_open(const char *path, bool make, char *why);
/* Takes the lock of the whole directory, for a short time. Returns a descriptor whose close ends
 * the lock, or -errno with @why. */
int rdi_attach_dir_lock(int dir, char *why);
/* Claims the file of device @name. Returns 0, or -errno with @why. */
int rdi_attach_file_claim(struct rdi_attach_file *file, const char *name, char *why);
/* Replaces its content. */
int rdi_attach_file_write(const struct rdi_attach_file *file, const struct rdi_attach_info *info);
/* Ends the lock; removes the file if @gone, which says that its device does not exist any more. */
void rdi_attach_file_end(struct rdi_attach_file *file, bool gone);
void rdi_attach_file_remove(int dir, const char *name);
/* Reads the file of @name. Returns 0, or -errno: -ENOENT there is none, -EBADMSG. */
int rdi_attach_file_read(int dir, const char *name, struct rdi_attach_info *out);
/* The process that holds the file's lock; 0: none. */
int rdi_attach_file_holder(int dir, const char *name);
/* As rdi_attach_each(), for an open directory. */
int rdi_attach_dir_each(int dir, bool (*fn)(void *user, const struct rdi_attach_info *info),
			void *user);

/* ---- daemon.c: what is said ---- */

void rdi_attach_say(const struct rdi_attach *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Writes the text to @why, RDI_ATTACH_TEXT bytes, and returns @rc. */
int rdi_attach_why(char *why, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- the interface of the drivers ---- */

/* Tries to load a module. Whether that worked shows when its device is opened. */
void rdi_attach_load_module(const char *name);

struct rdi_attach_driver {
	enum rdi_attach_kind kind;
	/* Whether the kernel has it, and this process may use it; else -errno with @why. */
	int (*probe)(struct rdi_attach *a, char *why);
	/*
	 * Makes a new block device, or takes over the one that @old (not NULL) is about, and
	 * returns when it can be used. Puts its name into a->info.name and claims a->file before
	 * the kernel announces it. Returns 0, or -errno with a->why; stop() in both cases.
	 */
	int (*start)(struct rdi_attach *a, const struct rdi_attach_info *old);
	/* The namespace has another size, a->info.blocks. */
	void (*resize)(struct rdi_attach *a);
	/* All I/O ends with errors from now on. May be called more than once. */
	void (*abort)(struct rdi_attach *a);
	/*
	 * Removes the block device; what was written is on the namespace before, unless aborted.
	 * Returns false if it leaves one that could not be taken over.
	 */
	bool (*stop)(struct rdi_attach *a);
	/* Removes what a process left that has ended. Returns 0, or -errno with @why. */
	int (*remove)(const struct rdi_attach_info *left, char *why);
	/* Whether the kernel still has the block device, waiting for a process to take it over. */
	bool (*can_recover)(const struct rdi_attach_info *left);
};

extern const struct rdi_attach_driver rdi_attach_ublk, rdi_attach_nbd;

/* The driver of a kind; NULL: not in this build. */
const struct rdi_attach_driver *rdi_attach_driver_of(enum rdi_attach_kind kind);

struct rdi_attach {
	struct rdi_attach_opts opts;
	const struct rdi_attach_driver *driver;
	void *driver_data;
	struct rdinit_dev *dev;
	struct rdinit_dev_info ns;
	struct rdi_attach_limits limits;
	struct rdi_attach_info info; /* as it is in the file */
	struct rdi_attach_file file;
	int dir_lock; /* of the state directory, until the device is claimed; -1 */
	int signals;  /* a signalfd */
	int wake;     /* an eventfd: look at the members below */
	atomic_bool to_syslog;
	bool stop;    /* the device shall be detached */
	bool aborted; /* its I/O ends with errors */
	bool open_done;
	int open_result;
	char why[RDI_ATTACH_TEXT];
	sigset_t old_mask;
	int no_lock, no_flusher; /* errno: what attach_memory() could not do; 0 */

	/* Set by the threads of the queues. */
	atomic_uint threads;  /* that are running */
	atomic_bool news;     /* the state of the device has changed */
	atomic_int dev_state; /* enum rdinit_dev_state */
	atomic_bool resized;  /* the namespace has another size */
	atomic_bool attached; /* set by the main thread: lost paths are worth a message */
	uint64_t lost_paths;  /* bits; of rdi_attach_event(), whose calls do not overlap */
};

/*
 * Waits until @fd is readable (-1: none), or something happens, which is dealt with: a signal, an
 * event of the device. Returns whether @fd is readable.
 */
bool rdi_attach_turn(struct rdi_attach *a, int fd);
void rdi_attach_wake(struct rdi_attach *a); /* any thread */
/*
 * Claims the file of a->info.name, writes it, and gives the state directory free. Returns 0, or
 * -errno with a->why.
 */
int rdi_attach_claim(struct rdi_attach *a);

/*
 * Runs @fn, which may block, on a thread of its own, and deals meanwhile with what happens. Returns
 * its result.
 */
int rdi_attach_blocking(struct rdi_attach *a, int (*fn)(void *arg), void *arg);
/* Writes what the kernel's cache of the block device has, unless its I/O ends with errors. */
void rdi_attach_sync(struct rdi_attach *a);

#endif /* RDI_ATTACH_INTERNAL_H */
