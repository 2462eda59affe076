// SPDX-License-Identifier: GPL-2.0-only
/*
 * A GPU that does nothing, for tests: whoever opens it has a buffer of known
 * size, and keeps an engine busy half of the time, as fdinfo tells.
 *
 * From 6.5 on the kernel's own code writes fdinfo, of real buffers.
 */
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define SINCE(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))
#if SINCE(6, 5)
#include <drm/drm_gem_shmem_helper.h>
#endif

#define NAME "syscollect_memory"

static ulong size = 12UL << 20;
module_param(size, ulong, 0444);
MODULE_PARM_DESC(size, "Bytes that each who opens the device has");

static int node = -1;
module_param(node, int, 0444);
MODULE_PARM_DESC(node, "Number of the render node");

static struct platform_device *device;
static struct drm_device *drm;

static u64 opened_at(struct drm_file *file)
{
	return (u64)(unsigned long)file->driver_priv;
}

static u64 busy(struct drm_file *file)
{
	return (ktime_get_ns() - opened_at(file)) / 2;
}

#if SINCE(6, 5)
static int give_buffer(struct drm_device *dev, struct drm_file *file)
{
	struct drm_gem_shmem_object *object = drm_gem_shmem_create(dev, size);
	u32 handle;
	int error;

	if (IS_ERR(object))
		return PTR_ERR(object);
	error = drm_gem_handle_create(file, &object->base, &handle);
	/* The handle has it now. */
	drm_gem_object_put(&object->base);
	return error;
}

static void show_usage(struct drm_printer *printer, struct drm_file *file)
{
	drm_show_memory_stats(printer, file);
	drm_printf(printer, "drm-engine-test:\t%llu ns\n", busy(file));
}
#else
static int give_buffer(struct drm_device *dev, struct drm_file *file)
{
	return 0;
}

/* As drivers wrote it themselves. */
static void show_fdinfo(struct seq_file *text, struct file *opened)
{
	struct drm_file *file = opened->private_data;

	seq_printf(text, "drm-driver:\t" NAME "\ndrm-client-id:\t%llu\n", opened_at(file));
	seq_printf(text, "drm-memory-memory:\t%lu KiB\ndrm-engine-test:\t%llu ns\n", size >> 10, busy(file));
}
#endif

static int on_open(struct drm_device *dev, struct drm_file *file)
{
	file->driver_priv = (void *)(unsigned long)ktime_get_ns();
	return give_buffer(dev, file);
}

static const struct file_operations file_operations = {
	.owner = THIS_MODULE,
#if SINCE(6, 5)
	DRM_GEM_FOPS,
	.show_fdinfo = drm_show_fdinfo,
#else
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = drm_ioctl,
	.show_fdinfo = show_fdinfo,
#endif
};

static struct drm_driver driver = {
#if SINCE(6, 5)
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.show_fdinfo = show_usage,
	DRM_GEM_SHMEM_DRIVER_OPS,
#else
	.driver_features = DRIVER_RENDER,
#endif
	.open = on_open,
	.fops = &file_operations,
	.name = NAME,
	.desc = "A GPU that does nothing, for tests",
	.major = 1,
};

static int __init test_init(void)
{
	int error;

	device = platform_device_register_simple("syscollect-memory", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	drm = drm_dev_alloc(&driver, &device->dev);
	if (IS_ERR(drm)) {
		error = PTR_ERR(drm);
		goto unregister;
	}
	error = drm_dev_register(drm, 0);
	if (error)
		goto put;
	node = drm->render->index;
	return 0;
put:
	drm_dev_put(drm);
unregister:
	platform_device_unregister(device);
	return error;
}

static void __exit test_exit(void)
{
	drm_dev_unregister(drm);
	drm_dev_put(drm);
	platform_device_unregister(device);
}

module_init(test_init);
module_exit(test_exit);
MODULE_DESCRIPTION("What a process has of a GPU, for tests");
MODULE_LICENSE("GPL");
