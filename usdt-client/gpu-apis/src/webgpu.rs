//! wgpu.
//!
//! A [`WgpuQueue`] stands for a queue, on the thread that encodes for it. Values of queries come to
//! the program by buffers that are mapped, so they are kept by frames: each has a set of queries,
//! which is resolved in its last encoder ([`WgpuQueue::resolve`]) and read when the GPU has done it
//! ([`WgpuQueue::collect`]). wgpu reads no clocks, so times are the earliest by which nothing
//! begins before it was submitted.
//!
//! The device needs `Features::TIMESTAMP_QUERY` for zones that are passes, and
//! `Features::TIMESTAMP_QUERY_INSIDE_ENCODERS` for others.

use crate::frames::{FAILED, FrameBooks, FrameState, MAPPED, PENDING, ZonePlace};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use syscollect_usdt_client::Location;
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZone, GpuZoneDetails, GpuZoneId,
};
use wgpu::{
    Backend, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePassTimestampWrites,
    Device, Features, MapMode, PollType, QUERY_SET_MAX_QUERIES, QUERY_SIZE, QuerySet,
    QuerySetDescriptor, QueryType, Queue, RenderPassTimestampWrites,
};

/// Bits of a time stamp: wgpu does not say how many count.
const BITS: u32 = 64;
/// The device was made without `Features::TIMESTAMP_QUERY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTimestamps;

impl fmt::Display for NoTimestamps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the device has no TIMESTAMP_QUERY")
    }
}

impl std::error::Error for NoTimestamps {}

/// A queue: its zones, by frames.
#[derive(Debug)]
pub struct WgpuQueue {
    device: Device,
    context: GpuContext,
    frames: Vec<FrameQueries>,
    books: RefCell<FrameBooks>,
    zones_of_frame: usize,
}

/// What the GPU has of a frame.
#[derive(Debug)]
struct FrameQueries {
    set: QuerySet,
    /// Their values, on the GPU.
    resolved: Buffer,
    /// The same, where the program reads them.
    read: Buffer,
}

impl WgpuQueue {
    /// Makes queries for so many frames in flight, and so many zones of each, at most 2048;
    /// viewers show the queue by that name.
    pub fn new(
        device: &Device,
        queue: &Queue,
        name: &str,
        frames: usize,
        zones: usize,
    ) -> Result<Self, NoTimestamps> {
        if !device.features().contains(Features::TIMESTAMP_QUERY) {
            return Err(NoTimestamps);
        }
        let count = (zones.max(1) as u32 * 2).min(QUERY_SET_MAX_QUERIES);
        let api = match device.adapter_info().backend {
            Backend::Vulkan => GpuApi::Vulkan,
            Backend::Metal => GpuApi::Metal,
            Backend::Dx12 => GpuApi::Direct3d12,
            Backend::Gl => GpuApi::OpenGl,
            _ => GpuApi::Custom,
        };
        let buffer = |usage| {
            let size = u64::from(count * QUERY_SIZE);
            device.create_buffer(&BufferDescriptor {
                label: Some("time stamps"),
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let queries = || FrameQueries {
            set: device.create_query_set(&QuerySetDescriptor {
                label: Some("time stamps"),
                ty: QueryType::Timestamp,
                count,
            }),
            resolved: buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC),
            read: buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST),
        };
        let ticks = GpuTicks { nanoseconds: queue.get_timestamp_period().into(), bits: BITS };
        let frames: Vec<_> = (0..frames.max(1)).map(|_| queries()).collect();
        let books = FrameBooks::new(frames.len());
        Ok(Self {
            device: device.clone(),
            context: GpuContext::new(api, name, ticks),
            frames,
            books: RefCell::new(books),
            zones_of_frame: count as usize / 2,
        })
    }

    /// Begins a zone: what is encoded until [`WgpuZone::end`] belongs to it.
    pub fn zone(&self, encoder: &mut CommandEncoder, location: &'static Location) -> WgpuZone<'_> {
        self.enter(encoder, self.context.begin(location))
    }

    /// Begins a zone of which more is said.
    pub fn zone_with(
        &self,
        encoder: &mut CommandEncoder,
        location: &'static Location,
        details: &GpuZoneDetails<'_>,
    ) -> WgpuZone<'_> {
        self.enter(encoder, self.context.begin_with(location, details))
    }

    /// Begins a zone that is a pass: its descriptor takes what [`WgpuPassZone::render`] or
    /// [`WgpuPassZone::compute`] return.
    pub fn pass(&self, location: &'static Location) -> WgpuPassZone<'_> {
        let zone = self.context.begin(location);
        WgpuPassZone { queue: self, place: self.place(zone.id()), _zone: zone }
    }

    /// What zones are begun by, for [`WgpuQueue::enter`].
    pub fn context(&self) -> &GpuContext {
        &self.context
    }

    /// Marks a zone that was begun by [`WgpuQueue::context`], in whatever way (with its call stack,
    /// say).
    pub fn enter<'q>(&'q self, encoder: &mut CommandEncoder, zone: GpuZone<'q>) -> WgpuZone<'q> {
        let place = self.place(zone.id());
        if let Some(place) = place {
            encoder.write_timestamp(&self.frames[place.frame].set, place.queries()[0]);
        }
        WgpuZone { queue: self, place, _zone: zone }
    }

    /// A place in the frame; `None`, and told so, where there is none.
    fn place(&self, id: GpuZoneId) -> Option<ZonePlace> {
        if !id.is_active() {
            return None;
        }
        let place = self.books.borrow_mut().place(id, self.zones_of_frame);
        if place.is_none() {
            self.context.resolve_without_times(id);
        }
        place
    }

    /// Ends the frame, in its last encoder: behind all its zones. Of a zone that is not ended,
    /// and of those that began after it, nobody will know the times.
    pub fn resolve(&self, encoder: &mut CommandEncoder) {
        let without = |zone| self.context.resolve_without_times(zone);
        let Some(frame) = self.books.borrow_mut().finish(without) else { return };
        let FrameQueries { set, resolved, read } = &self.frames[frame.number];
        let count = frame.zones as u32 * 2;
        encoder.resolve_query_set(set, 0..count, resolved, 0);
        encoder.copy_buffer_to_buffer(resolved, 0, read, 0, u64::from(count * QUERY_SIZE));
    }

    /// The encoder in which the frame was resolved is submitted: its values can be asked for.
    pub fn submitted(&self) {
        let mut books = self.books.borrow_mut();
        for (state, queries) in books.frames.iter_mut().zip(&self.frames) {
            if let FrameState::Resolved(zones) = state {
                let mapped = Arc::new(AtomicU8::new(PENDING));
                let told = Arc::clone(&mapped);
                let bytes = zones.len() as u64 * 2 * u64::from(QUERY_SIZE);
                queries.read.map_async(MapMode::Read, 0..bytes, move |result| {
                    let state = if result.is_ok() { MAPPED } else { FAILED };
                    told.store(state, Ordering::Release);
                });
                *state = FrameState::Submitted { zones: std::mem::take(zones), mapped };
            }
        }
    }

    /// Tells of zones that the GPU has done, without waiting for the others. Call it once a frame.
    pub fn collect(&self) {
        // Where that fails, the device is lost, and mapping its buffers fails, too.
        let _ = self.device.poll(PollType::Poll);
        let mut books = self.books.borrow_mut();
        for (state, queries) in books.frames.iter_mut().zip(&self.frames) {
            let FrameState::Submitted { zones, mapped } = state else { continue };
            match mapped.load(Ordering::Acquire) {
                PENDING => continue,
                MAPPED => {
                    self.tell(zones, &queries.read);
                    queries.read.unmap();
                }
                _ => zones.iter().for_each(|zone| self.context.resolve_without_times(*zone)),
            }
            *state = FrameState::Free;
        }
    }

    /// Tells of the zones of a frame, whose values are mapped.
    fn tell(&self, zones: &[GpuZoneId], read: &Buffer) {
        let bytes = zones.len() as u64 * 2 * u64::from(QUERY_SIZE);
        let Ok(values) = read.get_mapped_range(0..bytes) else {
            return zones.iter().for_each(|zone| self.context.resolve_without_times(*zone));
        };
        let (values, _) = values.as_chunks::<8>();
        for (zone, times) in zones.iter().zip(values.as_chunks::<2>().0) {
            let [began, ended] = times.map(u64::from_le_bytes);
            self.context.resolve(*zone, began, ended);
        }
    }

    /// Zones that found no place: too many in their frame, or too many frames in flight.
    pub fn refused(&self) -> u64 {
        self.books.borrow().refused
    }

    /// Frames whose zones were not read yet.
    pub fn outstanding(&self) -> usize {
        let books = self.books.borrow();
        books.frames.iter().filter(|state| !matches!(state, FrameState::Free)).count()
    }
}

impl Drop for WgpuQueue {
    fn drop(&mut self) {
        for state in &mut self.books.get_mut().frames {
            match std::mem::replace(state, FrameState::Free) {
                FrameState::Free => {}
                FrameState::Encoding(zones) => {
                    zones.iter().for_each(|zone| self.context.resolve_without_times(zone.id));
                }
                FrameState::Resolved(zones) | FrameState::Submitted { zones, .. } => {
                    zones.iter().for_each(|zone| self.context.resolve_without_times(*zone));
                }
            }
        }
    }
}

/// A zone that is being encoded; it ends with [`WgpuZone::end`].
#[must_use = "what is encoded until its end belongs to the zone"]
#[derive(Debug)]
pub struct WgpuZone<'q> {
    queue: &'q WgpuQueue,
    place: Option<ZonePlace>,
    /// Ends behind the last command.
    _zone: GpuZone<'q>,
}

impl WgpuZone<'_> {
    /// Ends the zone. Of one that is dropped without it nobody knows the times.
    pub fn end(self, encoder: &mut CommandEncoder) {
        if let Some(place) = self.place
            && self.queue.books.borrow_mut().end(place)
        {
            encoder.write_timestamp(&self.queue.frames[place.frame].set, place.queries()[1]);
        }
    }
}

/// A zone that is a pass; drop it behind the pass.
#[must_use = "the pass that is encoded until its guard is dropped belongs to the zone"]
#[derive(Debug)]
pub struct WgpuPassZone<'q> {
    queue: &'q WgpuQueue,
    place: Option<ZonePlace>,
    /// Ends behind the pass.
    _zone: GpuZone<'q>,
}

impl WgpuPassZone<'_> {
    /// What the descriptor of a render pass takes as its `timestamp_writes`.
    pub fn render(&self) -> Option<RenderPassTimestampWrites<'_>> {
        let [begin, end] = self.written()?.map(Some);
        Some(RenderPassTimestampWrites {
            query_set: self.set()?,
            beginning_of_pass_write_index: begin,
            end_of_pass_write_index: end,
        })
    }

    /// What the descriptor of a compute pass takes as its `timestamp_writes`.
    pub fn compute(&self) -> Option<ComputePassTimestampWrites<'_>> {
        let [begin, end] = self.written()?.map(Some);
        Some(ComputePassTimestampWrites {
            query_set: self.set()?,
            beginning_of_pass_write_index: begin,
            end_of_pass_write_index: end,
        })
    }

    fn set(&self) -> Option<&QuerySet> {
        self.place.map(|place| &self.queue.frames[place.frame].set)
    }

    /// Its queries, which the pass will write.
    fn written(&self) -> Option<[u32; 2]> {
        let place = self.place?;
        self.queue.books.borrow_mut().end(place).then(|| place.queries())
    }
}
