//! The zones that are open on a thread of a recording that goes on, for whoever decides on each as
//! it ends.

/// Zones inside each other that are followed.
const MOST_DEPTH: usize = 64;

/// What is known of the zones that are open on a thread, the outermost 64 of them. Such as were
/// open before anybody looked are counted and not known.
///
/// ```
/// use syscollect_merge::FollowedZones;
///
/// let mut zones = FollowedZones::default();
/// assert!(zones.begin(1, "inner"));
/// assert_eq!(zones.end(1), Some("inner"));
/// assert_eq!(zones.end(0), None, "its beginning was not seen");
/// ```
#[derive(Clone, Debug)]
pub struct FollowedZones<Z> {
    /// The outermost first, as far as they are followed.
    open: Vec<Option<Z>>,
    /// How many are open.
    depth: usize,
}

impl<Z> Default for FollowedZones<Z> {
    fn default() -> Self {
        Self { open: Vec::new(), depth: 0 }
    }
}

impl<Z> FollowedZones<Z> {
    /// None is open, or nothing is known of them any more.
    pub fn clear(&mut self) {
        self.open.clear();
        self.depth = 0;
    }

    /// So many are open, and of others the ends were missed.
    pub fn leave(&mut self, depth: u32) {
        self.open.truncate(depth as usize);
        self.depth = depth as usize;
    }

    /// A zone begins inside so many others; whether it is followed.
    pub fn begin(&mut self, depth: u32, zone: Z) -> bool {
        let depth = depth as usize;
        self.depth = depth.saturating_add(1);
        if depth >= MOST_DEPTH {
            return false;
        }
        // Those around it whose beginning was not seen.
        self.open.resize_with(depth, || None);
        self.open.push(Some(zone));
        true
    }

    /// The innermost ends, and all beyond that depth, modulo 64: the zone that ends there, where
    /// its beginning was seen.
    pub fn end(&mut self, depth: u8) -> Option<Z> {
        let innermost = self.depth.checked_sub(1)?;
        let depth = innermost - innermost.wrapping_sub(usize::from(depth)) % 64;
        self.depth = depth;
        let zone = self.open.get_mut(depth)?.take();
        self.open.truncate(depth);
        zone
    }

    /// Those that are known, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = &Z> {
        self.open.iter().flatten()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Z> {
        self.open.iter_mut().flatten()
    }
}
