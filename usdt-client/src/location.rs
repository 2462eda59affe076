//! Where a zone is in the source: stated once, sent once.

use crate::arena::Arena;
use crate::log::{self, CachedNumber};
use syscollect_zone_protocol::log::{self as protocol, EntryWords};

/// A place in the source that zones, locks and async zones name. A static, as
/// the macros make it, or part of something that lives as long as it is used.
pub struct Location {
    name: &'static str,
    function: fn() -> &'static str,
    file: &'static str,
    line: u32,
    color: u32,
    number: CachedNumber,
}

impl Location {
    /// A place; `color` is 0xRRGGBB, 0 leaves it to the viewer. `function` is asked once, when the
    /// place is sent.
    pub const fn new(
        name: &'static str,
        function: fn() -> &'static str,
        file: &'static str,
        line: u32,
        color: u32,
    ) -> Self {
        Self { name, function, file, line, color, number: CachedNumber::new() }
    }

    /// What the zone is called: its name, or the function's where there is none.
    pub fn name(&self) -> &'static str {
        if self.name.is_empty() { self.function() } else { self.name }
    }

    /// The function's path.
    pub fn function(&self) -> &'static str {
        (self.function)()
    }

    /// The file.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// 0xRRGGBB, or 0.
    pub fn color(&self) -> u32 {
        self.color
    }

    /// The number, if it is known for the arena of that generation.
    #[inline(always)]
    pub(crate) fn cached(&self, generation: u32) -> Option<u32> {
        self.number.get(generation)
    }
}

/// What zones begin at.
pub(crate) trait ZoneLocation {
    /// The place with all its texts.
    fn definition(&self) -> DynamicLocation<'_>;
    /// Its number in that arena's log, 0 if the log is full.
    fn number(&self, arena: &Arena) -> u32;
}

impl ZoneLocation for Location {
    fn definition(&self) -> DynamicLocation<'_> {
        let (name, function) = (self.name(), self.function());
        DynamicLocation { name, function, file: self.file, line: self.line, color: self.color }
    }

    #[cold]
    fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || self.definition().number(arena))
    }
}

/// A place that is known only at run time: of a script, say. The same place is
/// sent once; each use looks it up by its content.
#[derive(Clone, Copy, Debug)]
pub struct DynamicLocation<'a> {
    /// What the zone is called.
    pub name: &'a str,
    /// The function's name.
    pub function: &'a str,
    /// The file.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// 0xRRGGBB; 0 leaves it to the viewer.
    pub color: u32,
}

impl ZoneLocation for DynamicLocation<'_> {
    fn definition(&self) -> DynamicLocation<'_> {
        *self
    }

    fn number(&self, arena: &Arena) -> u32 {
        let location = protocol::Location {
            line: self.line,
            color: self.color,
            name: self.name.as_bytes(),
            function: self.function.as_bytes(),
            file: self.file.as_bytes(),
        };
        log::define(EntryWords::new().location(location), arena)
    }
}

/// A [`DynamicLocation`] that is used again and again: its number is cached, so that a use costs
/// what that of a [`Location`] does. For other languages' clients, which keep it as long as they
/// need.
pub struct CachedLocation<'a> {
    location: DynamicLocation<'a>,
    number: CachedNumber,
}

impl<'a> CachedLocation<'a> {
    /// A place with no number yet.
    pub const fn new(location: DynamicLocation<'a>) -> Self {
        Self { location, number: CachedNumber::new() }
    }

    /// The place.
    pub fn location(&self) -> DynamicLocation<'a> {
        self.location
    }
}

impl ZoneLocation for CachedLocation<'_> {
    fn definition(&self) -> DynamicLocation<'_> {
        self.location
    }

    #[inline(always)]
    fn number(&self, arena: &Arena) -> u32 {
        self.number.or_define(arena, || self.location.number(arena))
    }
}

/// The path of the function around a macro, from the type name of an item in it.
#[doc(hidden)]
pub fn function_around<T>(_item: T) -> &'static str {
    let path = core::any::type_name::<T>();
    let path = path.strip_suffix("::here").unwrap_or(path);
    path.trim_end_matches("::{{closure}}")
}

/// A [`Location`] of the place where the macro stands: `location!("name")`,
/// `location!("name", 0xff8000)`.
#[macro_export]
macro_rules! location {
    ($name:expr) => {
        $crate::location!($name, 0)
    };
    ($name:expr, $color:expr) => {{
        fn here() {}
        static LOCATION: $crate::Location = $crate::Location::new(
            $name,
            || $crate::__private::function_around(here),
            file!(),
            line!(),
            $color,
        );
        &LOCATION
    }};
}
