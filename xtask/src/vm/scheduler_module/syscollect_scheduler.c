// SPDX-License-Identifier: GPL-2.0-only
/*
 * A GPU that does nothing, for tests: jobs through the DRM scheduler, each
 * done by a timer a tick later, every tenth waited for, every tenth with two
 * fences that it waits for, one that is refused when it is to run, one that
 * never ends by itself, so that the scheduler gives it up, and one that still
 * waits when the queue is closed, so that it is never run.
 *
 * All is done while the module is loaded, by whoever loads it; what was done
 * can be read from its parameters afterwards.
 */
#include <drm/gpu_scheduler.h>
#include <linux/delay.h>
#include <linux/dma-fence.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/version.h>

#define SINCE(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

static uint jobs = 100;
module_param(jobs, uint, 0444);
MODULE_PARM_DESC(jobs, "Jobs that are done");

static uint queued, run, freed, timeouts, refused, killed, waits, dependencies;
module_param(queued, uint, 0444);
module_param(run, uint, 0444);
module_param(freed, uint, 0444);
module_param(timeouts, uint, 0444);
module_param(refused, uint, 0444);
module_param(killed, uint, 0444);
module_param(waits, uint, 0444);
module_param(dependencies, uint, 0444);

static struct platform_device *device;
static struct drm_gpu_scheduler scheduler;
static struct drm_sched_entity entity;
static DEFINE_SPINLOCK(fence_lock);
static u64 fence_context;
static uint fence_sequence;

/* What jobs wait for. Of one context the scheduler keeps the latest only. */
#define GATES 2
static u64 gate_contexts;
static uint gate_sequence;

struct test_fence {
	struct dma_fence base;
	struct timer_list timer;
};

struct test_job {
	struct drm_sched_job base;
	struct dma_fence *done;
	bool hangs;
	bool is_refused;
	/* Those that the scheduler has not asked for. */
	struct dma_fence *gates[GATES];
	uint closed;
};

static const char *driver_name(struct dma_fence *fence)
{
	return "syscollect_test";
}

static const char *timeline_name(struct dma_fence *fence)
{
	/* As that of the scheduler's ring: so drivers name them. */
	return "test_ring";
}

static const char *gate_name(struct dma_fence *fence)
{
	return "gate";
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = driver_name,
	.get_timeline_name = timeline_name,
};

static const struct dma_fence_ops gate_ops = {
	.get_driver_name = driver_name,
	.get_timeline_name = gate_name,
};

static void on_timer(struct timer_list *timer)
{
	struct test_fence *fence = container_of(timer, struct test_fence, timer);

	dma_fence_signal(&fence->base);
	dma_fence_put(&fence->base);
}

/* A fence that signals itself after some ticks; another reference is the caller's. */
static struct dma_fence *self_signaling(const struct dma_fence_ops *ops, u64 context,
					uint sequence, uint ticks)
{
	struct test_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return NULL;
	dma_fence_init(&fence->base, ops, &fence_lock, context, sequence);
	dma_fence_get(&fence->base);
	timer_setup(&fence->timer, on_timer, 0);
	mod_timer(&fence->timer, jiffies + ticks);
	return &fence->base;
}

static struct dma_fence *run_job(struct drm_sched_job *base)
{
	struct test_job *job = container_of(base, struct test_job, base);
	struct test_fence *fence;

	if (job->is_refused) {
		refused++;
		return ERR_PTR(-EIO);
	}
	run++;
	if (!job->hangs)
		return self_signaling(&fence_ops, fence_context, ++fence_sequence, 1);
	fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	if (!fence)
		return NULL;
	dma_fence_init(&fence->base, &fence_ops, &fence_lock, fence_context, ++fence_sequence);
	job->done = dma_fence_get(&fence->base);
	return &fence->base;
}

static void free_job(struct drm_sched_job *base)
{
	struct test_job *job = container_of(base, struct test_job, base);

	dma_fence_put(job->done);
	drm_sched_job_cleanup(base);
	kfree(job);
	freed++;
}

/* The scheduler has taken the job from its list, so it is ended and freed here. */
static void give_up(struct drm_sched_job *base)
{
	struct test_job *job = container_of(base, struct test_job, base);

	timeouts++;
	dma_fence_set_error(job->done, -ETIME);
	dma_fence_signal(job->done);
	free_job(base);
}

#if SINCE(5, 12)
static enum drm_gpu_sched_stat timedout_job(struct drm_sched_job *base)
{
	give_up(base);
#ifdef STATUS_IS_RESET
	return DRM_GPU_SCHED_STAT_RESET;
#else
	return DRM_GPU_SCHED_STAT_NOMINAL;
#endif
}
#else
static void timedout_job(struct drm_sched_job *base)
{
	give_up(base);
}

#endif

#ifndef JOBS_KNOW_DEPENDENCIES
static struct dma_fence *dependency(struct drm_sched_job *base, struct drm_sched_entity *of)
{
	struct test_job *job = container_of(base, struct test_job, base);

	return job->closed ? job->gates[--job->closed] : NULL;
}
#endif

static const struct drm_sched_backend_ops scheduler_ops = {
#ifndef JOBS_KNOW_DEPENDENCIES
	.dependency = dependency,
#endif
	.run_job = run_job,
	.timedout_job = timedout_job,
	.free_job = free_job,
};

/* Long enough for an emulated machine to do a job in time. */
#define PATIENCE (3 * HZ)

static int start_scheduler(void)
{
#if SINCE(6, 15)
	const struct drm_sched_init_args arguments = {
		.ops = &scheduler_ops,
		.num_rqs = DRM_SCHED_PRIORITY_COUNT,
		.credit_limit = 4,
		.timeout = PATIENCE,
		.name = "test_ring",
		.dev = &device->dev,
	};

	return drm_sched_init(&scheduler, &arguments);
#elif SINCE(6, 8)
	return drm_sched_init(&scheduler, &scheduler_ops, NULL, DRM_SCHED_PRIORITY_COUNT, 4, 0,
			      PATIENCE, NULL, NULL, "test_ring", &device->dev);
#elif SINCE(5, 19)
	return drm_sched_init(&scheduler, &scheduler_ops, 4, 0, PATIENCE, NULL, NULL, "test_ring", &device->dev);
#else
	return drm_sched_init(&scheduler, &scheduler_ops, 4, 0, PATIENCE, "test_ring");
#endif
}

static int init_job(struct drm_sched_job *job)
{
#ifdef JOBS_HAVE_CLIENTS
	return drm_sched_job_init(job, &entity, 1, NULL, 7);
#elif SINCE(6, 8)
	return drm_sched_job_init(job, &entity, 1, NULL);
#else
	return drm_sched_job_init(job, &entity, NULL);
#endif
}

/* Makes a job wait for some fences that signal themselves after so many ticks. */
static int wait_for_gates(struct test_job *job, uint gates, uint ticks)
{
	uint i;

	gate_sequence++;
	for (i = 0; i < gates; i++) {
		struct dma_fence *gate = self_signaling(&gate_ops, gate_contexts + i, gate_sequence, ticks);

		if (!gate)
			return -ENOMEM;
#ifdef JOBS_KNOW_DEPENDENCIES
		if (drm_sched_job_add_dependency(&job->base, gate))
			return -ENOMEM;
#else
		job->gates[job->closed++] = gate;
#endif
		dependencies++;
	}
	return 0;
}

enum kind { PLAIN, DEPENDS, REFUSED, HANGS, KILLED };

/* The end of the job that is never run. */
static struct dma_fence *killed_end;

static int submit(enum kind kind, bool wait)
{
	struct test_job *job = kzalloc(sizeof(*job), GFP_KERNEL);
	struct dma_fence *finished;
	int error;

	if (!job)
		return -ENOMEM;
	job->hangs = kind == HANGS;
	job->is_refused = kind == REFUSED;
	error = init_job(&job->base);
	if (error) {
		kfree(job);
		return error;
	}
	if (kind == DEPENDS)
		error = wait_for_gates(job, GATES, 1 + HZ / 50);
	if (kind == KILLED)
		error = wait_for_gates(job, 1, HZ);
	if (error)
		return error;
#if SINCE(5, 16)
	drm_sched_job_arm(&job->base);
#endif
	finished = dma_fence_get(&job->base.s_fence->finished);
#if SINCE(5, 16)
	drm_sched_entity_push_job(&job->base);
#else
	drm_sched_entity_push_job(&job->base, &entity);
#endif
	queued++;
	if (kind == KILLED)
		killed_end = dma_fence_get(finished);
	if (wait) {
		waits++;
		dma_fence_wait(finished, false);
	}
	dma_fence_put(finished);
	return 0;
}

/* Closes the queue with a job in it, and waits until that and all others are gone. */
static void close_queue(void)
{
	uint tries = 500;

	/* Once the scheduler has seen what the job waits for, nothing else waits for that. */
	while (killed_end && !READ_ONCE(entity.dependency) && tries--)
		msleep(1);
	drm_sched_entity_fini(&entity);
	if (killed_end) {
		killed++;
		waits++;
		dma_fence_wait(killed_end, false);
		dma_fence_put(killed_end);
	}
	tries = 500;
	while (READ_ONCE(freed) < queued && tries--)
		msleep(10);
	/* What it waited for is signaled, too. */
	msleep(1200);
}

static int __init test_init(void)
{
	struct drm_gpu_scheduler *list[] = { &scheduler };
	int error;
	uint i;

	device = platform_device_register_simple("syscollect-test", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	fence_context = dma_fence_context_alloc(1);
	gate_contexts = dma_fence_context_alloc(GATES);
	error = start_scheduler();
	if (error)
		goto unregister;
	error = drm_sched_entity_init(&entity, DRM_SCHED_PRIORITY_NORMAL, list, 1, NULL);
	if (error)
		goto finish;
	for (i = 0; i < jobs && !error; i++)
		error = submit(i % 10 == 4 ? DEPENDS : PLAIN, i % 10 == 9 || i + 1 == jobs);
	if (!error)
		error = submit(REFUSED, true);
	if (!error)
		error = submit(HANGS, true);
	if (!error)
		error = submit(KILLED, false);
	close_queue();
finish:
	drm_sched_fini(&scheduler);
	/* Fences are freed after their readers are done. */
	rcu_barrier();
unregister:
	platform_device_unregister(device);
	return error;
}

static void __exit test_exit(void)
{
}

module_init(test_init);
module_exit(test_exit);
MODULE_DESCRIPTION("Jobs through the DRM scheduler, for tests");
MODULE_LICENSE("GPL");
