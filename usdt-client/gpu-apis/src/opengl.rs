//! OpenGL, by glow.
//!
//! An [`OpenGlContext`] stands for a context of OpenGL, on the thread where that is current. A zone
//! is what is called between its beginning and the drop of its guard. It needs OpenGL 3.3, or
//! `GL_ARB_timer_query`; OpenGL ES counts times that a change of clocks may make worthless, which
//! is not handled here.

use crate::calibration::{CalibrationTimer, ClockReading, between, closest};
use glow::HasContext;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, Range};
use syscollect_usdt_client::Location;
use syscollect_usdt_client::gpu::{
    GpuApi, GpuContext, GpuTicks, GpuZone, GpuZoneDetails, GpuZoneId, QueryPair, QueryRing,
};

/// Why a context can have no zones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenGlError {
    /// It has no time stamp queries.
    NoTimestamps,
    /// It made no query, and said that.
    NoQuery(String),
}

impl fmt::Display for OpenGlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimestamps => out.write_str("this context of OpenGL has no time stamps"),
            Self::NoQuery(error) => write!(out, "OpenGL made no query: {error}"),
        }
    }
}

impl std::error::Error for OpenGlError {}

/// A context of OpenGL, with queries for its zones.
///
/// `C` is how the program keeps its functions (`Rc<glow::Context>`, `&glow::Context`). `PAIRS` is
/// how many zones can be in flight, from being called to being read. Zones that find no query are
/// shown without times, and counted ([`OpenGlContext::refused`]).
pub struct OpenGlContext<C: Deref<Target = glow::Context>, const PAIRS: usize> {
    gl: C,
    context: GpuContext,
    timer: CalibrationTimer,
    names: Vec<glow::Query>,
    books: RefCell<Books<PAIRS>>,
}

/// Which queries are in use.
struct Books<const PAIRS: usize> {
    ring: QueryRing<GpuZoneId, PAIRS>,
    /// Which were called for and not read: others have the values of zones before, or none.
    called: Vec<bool>,
}

impl<C: Deref<Target = glow::Context>, const PAIRS: usize> fmt::Debug for OpenGlContext<C, PAIRS> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenGlContext").field("context", &self.context).finish_non_exhaustive()
    }
}

impl<C: Deref<Target = glow::Context>, const PAIRS: usize> OpenGlContext<C, PAIRS> {
    /// Makes the queries; viewers show the context by that name. `bits` is how many of a time stamp
    /// count: `glGetQueryiv` of `GL_TIMESTAMP` and `GL_QUERY_COUNTER_BITS`, which glow has not; 64
    /// where it is not known.
    ///
    /// # Safety
    ///
    /// The context is current whenever a function of this is called, or this or a zone is dropped.
    pub unsafe fn new(gl: C, name: &str, bits: u32) -> Result<Self, OpenGlError> {
        let version = gl.version();
        let since_3_3 = (version.major, version.minor) >= (3, 3);
        let offered = since_3_3 || gl.supported_extensions().contains("GL_ARB_timer_query");
        if version.is_embedded || !offered || bits == 0 {
            return Err(OpenGlError::NoTimestamps);
        }
        let context = GpuContext::new(GpuApi::OpenGl, name, GpuTicks { bits, nanoseconds: 1.0 });
        #[cfg(target_os = "linux")]
        // SAFETY: asks for a number.
        let context = context.owned_by(unsafe { libc::gettid() } as u32);
        let books = Books { ring: QueryRing::new(), called: vec![false; PAIRS * 2] };
        let (timer, books) = (CalibrationTimer::default(), RefCell::new(books));
        let mut made = Self { gl, context, timer, names: Vec::new(), books };
        for _ in 0..PAIRS * 2 {
            // SAFETY: the context is current.
            let query = unsafe { made.gl.create_query() }.map_err(OpenGlError::NoQuery)?;
            made.names.push(query);
        }
        Ok(made)
    }

    /// Begins a zone: what is called until its guard is dropped belongs to it.
    pub fn zone(&self, location: &'static Location) -> OpenGlZone<'_, C, PAIRS> {
        self.enter(self.context.begin(location))
    }

    /// Begins a zone of which more is said.
    pub fn zone_with(
        &self,
        location: &'static Location,
        details: &GpuZoneDetails<'_>,
    ) -> OpenGlZone<'_, C, PAIRS> {
        self.enter(self.context.begin_with(location, details))
    }

    /// What zones are begun by, for [`OpenGlContext::enter`].
    pub fn context(&self) -> &GpuContext {
        &self.context
    }

    /// Marks a zone that was begun by [`OpenGlContext::context`], in whatever way (with its call
    /// stack, say).
    pub fn enter<'c>(&'c self, zone: GpuZone<'c>) -> OpenGlZone<'c, C, PAIRS> {
        let id = zone.id();
        let pair = id.is_active().then(|| self.books.borrow_mut().ring.take(id)).flatten();
        match pair {
            Some(pair) => self.write(pair.begin()),
            None => self.context.resolve_without_times(id),
        }
        OpenGlZone { context: self, pair, _zone: zone }
    }

    /// Has the GPU write its clock when it comes here.
    fn write(&self, query: u32) {
        // SAFETY: the context is current; nobody needs the value that was there.
        unsafe { self.gl.query_counter(self.names[query as usize], glow::TIMESTAMP) };
        self.books.borrow_mut().called[query as usize] = true;
    }

    /// Tells of zones that the GPU has done, without waiting for the others, and reads the clocks
    /// now and then. Call it once a frame, behind the swap, and behind `glFinish` at the end.
    pub fn collect(&self) {
        self.timer.calibrate(&self.context, || self.read_clocks());
        let Books { ring, called } = &mut *self.books.borrow_mut();
        ring.resolve(
            |queries, values| self.read(queries, values, called),
            |zone, times| self.context.resolve(zone, times.began, times.ended),
        );
    }

    /// Reads pairs from the oldest on, until one was not written yet: what was called for later is
    /// not written before.
    fn read(&self, queries: Range<u32>, values: &mut [Option<u64>], called: &mut [bool]) {
        let pairs = values.as_chunks_mut::<2>().0;
        for (pair, first) in pairs.iter_mut().zip(queries.step_by(2)) {
            let [begin, end] = [first as usize, first as usize + 1];
            // A zone that is not ended yet, or whose values were read.
            if !called[begin] || !called[end] {
                continue;
            }
            // SAFETY: the context is current, and has these queries.
            let read = |query: usize, what| unsafe {
                self.gl.get_query_parameter_u64(self.names[query], what)
            };
            if read(end, glow::QUERY_RESULT_AVAILABLE) == 0
                || read(begin, glow::QUERY_RESULT_AVAILABLE) == 0
            {
                break;
            }
            *pair = [begin, end].map(|query| Some(read(query, glow::QUERY_RESULT)));
            (called[begin], called[end]) = (false, false);
        }
    }

    /// Its clock and the host's now, as [`OpenGlContext::collect`] tells them now and then.
    pub fn read_clocks(&self) -> Option<ClockReading> {
        closest(|| {
            // SAFETY: the context is current.
            between(|| Some(unsafe { self.gl.get_parameter_i64(glow::TIMESTAMP) } as u64))
        })
    }

    /// Says that nothing which was called so far will be done: the context was reset.
    pub fn abandon(&mut self) {
        let Books { ring, called } = self.books.get_mut();
        ring.abandon(|zone| self.context.resolve_without_times(zone));
        called.fill(false);
    }

    /// Zones that found no query.
    pub fn refused(&self) -> u64 {
        self.books.borrow().ring.refused()
    }

    /// Zones whose times were not read yet.
    pub fn outstanding(&self) -> usize {
        self.books.borrow().ring.outstanding()
    }
}

impl<C: Deref<Target = glow::Context>, const PAIRS: usize> Drop for OpenGlContext<C, PAIRS> {
    fn drop(&mut self) {
        self.abandon();
        for name in &self.names {
            // SAFETY: the context is current, and nobody else has these queries.
            unsafe { self.gl.delete_query(*name) };
        }
    }
}

/// A zone that is open.
#[must_use = "what is called until its guard is dropped belongs to the zone"]
pub struct OpenGlZone<'c, C: Deref<Target = glow::Context>, const PAIRS: usize> {
    context: &'c OpenGlContext<C, PAIRS>,
    pair: Option<QueryPair>,
    /// Ends behind the last call.
    _zone: GpuZone<'c>,
}

impl<C: Deref<Target = glow::Context>, const PAIRS: usize> fmt::Debug for OpenGlZone<'_, C, PAIRS> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenGlZone").field("pair", &self.pair).finish_non_exhaustive()
    }
}

impl<C: Deref<Target = glow::Context>, const PAIRS: usize> Drop for OpenGlZone<'_, C, PAIRS> {
    fn drop(&mut self) {
        self.pair.into_iter().for_each(|pair| self.context.write(pair.end()));
    }
}
