//! A device of Vulkan: query pools, and command buffers that write time stamps into them.

use ash::vk::{self, Handle as _};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryState {
    /// As it is when its pool is new: it may neither be written nor read.
    Unknown,
    Reset,
    /// A command will write it.
    Recorded,
    Written(u64),
}

#[derive(Debug, Default)]
struct StandIn {
    /// By pool; an empty one was destroyed.
    pools: Vec<Vec<QueryState>>,
    /// Pools whose device is lost.
    lost: Vec<u64>,
    /// Queries that are written, by command buffer.
    commands: HashMap<u64, Vec<PoolQuery>>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct PoolQuery {
    pool: u64,
    query: u32,
}

static DEVICE: LazyLock<Mutex<StandIn>> = LazyLock::new(Mutex::default);

fn stand_in() -> MutexGuard<'static, StandIn> {
    DEVICE.lock().unwrap()
}

impl StandIn {
    /// Numbers of pools begin with 1.
    fn query(&mut self, pool: u64, query: u32) -> &mut QueryState {
        &mut self.pools[pool as usize - 1][query as usize]
    }
}

unsafe extern "system" fn create_query_pool(
    _: vk::Device,
    info: *const vk::QueryPoolCreateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::QueryPool,
) -> vk::Result {
    let mut device = stand_in();
    // SAFETY: the caller's structure.
    let info = unsafe { &*info };
    assert!(info.query_type == vk::QueryType::TIMESTAMP);
    device.pools.push(vec![QueryState::Unknown; info.query_count as usize]);
    // SAFETY: the caller's place.
    unsafe { pool.write(vk::QueryPool::from_raw(device.pools.len() as u64)) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy_query_pool(
    _: vk::Device,
    pool: vk::QueryPool,
    _: *const vk::AllocationCallbacks<'_>,
) {
    stand_in().pools[pool.as_raw() as usize - 1].clear();
}

unsafe extern "system" fn reset_query_pool(
    _: vk::Device,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
) {
    let mut device = stand_in();
    for query in first..first + count {
        *device.query(pool.as_raw(), query) = QueryState::Reset;
    }
}

unsafe extern "system" fn cmd_write_timestamp(
    commands: vk::CommandBuffer,
    _: vk::PipelineStageFlags,
    pool: vk::QueryPool,
    query: u32,
) {
    let mut device = stand_in();
    let pool = pool.as_raw();
    assert_eq!(*device.query(pool, query), QueryState::Reset, "query {query} is in use");
    *device.query(pool, query) = QueryState::Recorded;
    device.commands.entry(commands.as_raw()).or_default().push(PoolQuery { pool, query });
}

unsafe extern "system" fn get_query_pool_results(
    _: vk::Device,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
    bytes: usize,
    data: *mut c_void,
    stride: vk::DeviceSize,
    flags: vk::QueryResultFlags,
) -> vk::Result {
    let mut device = stand_in();
    let pool = pool.as_raw();
    assert_eq!((bytes, stride), (count as usize * 16, 16));
    assert!(flags == vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WITH_AVAILABILITY);
    if device.lost.contains(&pool) {
        return vk::Result::ERROR_DEVICE_LOST;
    }
    let mut result = vk::Result::SUCCESS;
    for (index, query) in (first..first + count).enumerate() {
        let value = match *device.query(pool, query) {
            QueryState::Written(value) => [value, 1],
            QueryState::Unknown => panic!("query {query} was never reset"),
            // Of what is not there the value may be anything.
            QueryState::Reset | QueryState::Recorded => {
                result = vk::Result::NOT_READY;
                [0xdead, 0]
            }
        };
        // SAFETY: the caller has room for as many.
        unsafe { data.cast::<[u64; 2]>().add(index).write(value) };
    }
    result
}

/// The functions of the device.
pub(crate) fn device() -> ash::Device {
    let load = |name: &CStr| match name.to_bytes() {
        b"vkCreateQueryPool" => create_query_pool as *const c_void,
        b"vkDestroyQueryPool" => destroy_query_pool as *const c_void,
        b"vkResetQueryPool" => reset_query_pool as *const c_void,
        b"vkCmdWriteTimestamp" => cmd_write_timestamp as *const c_void,
        b"vkGetQueryPoolResults" => get_query_pool_results as *const c_void,
        // Calling these fails.
        _ => std::ptr::null(),
    };
    // SAFETY: the functions have the types of their names.
    unsafe { ash::Device::load_with(load, vk::Device::from_raw(1)) }
}

/// A command buffer that nobody else has.
pub(crate) fn command_buffer() -> vk::CommandBuffer {
    let mut device = stand_in();
    let number = device.commands.len() as u64 + 1;
    device.commands.insert(number, Vec::new());
    vk::CommandBuffer::from_raw(number)
}

/// The device does what was recorded: its clock is 10 more at each time stamp.
pub(crate) fn execute(commands: vk::CommandBuffer) {
    let mut device = stand_in();
    let recorded = std::mem::take(device.commands.get_mut(&commands.as_raw()).unwrap());
    for PoolQuery { pool, query } in recorded {
        device.clock += 10;
        let value = QueryState::Written(device.clock);
        assert_eq!(std::mem::replace(device.query(pool, query), value), QueryState::Recorded);
    }
}

/// How many time stamps a command buffer writes.
pub(crate) fn recorded(commands: vk::CommandBuffer) -> usize {
    stand_in().commands[&commands.as_raw()].len()
}

/// The device is lost, for the newest pool that has so many queries.
pub(crate) fn lose(queries: usize) {
    let mut device = stand_in();
    let pool = device.pools.iter().rposition(|pool| pool.len() == queries).unwrap();
    device.lost.push(pool as u64 + 1);
}
