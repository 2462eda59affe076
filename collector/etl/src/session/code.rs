//! Addresses as code addresses: in images and in methods, and stacks made of them.

use super::address_lists::{AddressLists, ListId};
use super::images::{Identities, Images, KERNEL_SPACE, module_key};
use super::methods::Methods;
use rustc_hash::FxHashMap;
use syscollect_model::{
    Frame, FrameId, Module, ModuleId, ModuleKind, SessionInfo, StackId, SymbolTable, Tables, Ticks,
};
use syscollect_playback::{
    CodeAddress, CodeAddressId, CodeAddresses, Framer, ModuleKey, Names, UnnamedCode,
    UnresolvedModule, WindowsImage,
};

/// A stack as records tell it: the addresses of the kernel's part and of the program's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct StackParts {
    pub(super) kernel: Option<ListId>,
    pub(super) user: Option<ListId>,
}

impl StackParts {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Methods that the trace names, and the rows of the frames table that were made of them.
#[derive(Debug, Default)]
struct MethodFrames {
    methods: Methods,
    /// The module of their code addresses.
    place_module: u32,
    /// The same in the tables, once there is a frame.
    module: Option<ModuleId>,
    /// Rows by code address.
    known: FxHashMap<CodeAddressId, FrameId>,
}

/// Everything that addresses are resolved with.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) images: Images,
    pub(super) lists: AddressLists,
    code: CodeAddresses,
    names: Names,
    framer: Framer,
    methods: MethodFrames,
    /// What images are known by, by module.
    windows: FxHashMap<ModuleKey, WindowsImage>,
    /// Answers by space, epoch and address.
    known: FxHashMap<(u32, u32, u64), CodeAddressId>,
    /// Answers by parts, process and epoch.
    stacks: FxHashMap<(StackParts, u32, u32), Option<StackId>>,
    frames: Vec<FrameId>,
}

impl Code {
    pub(super) fn new(
        mut images: Images,
        methods: Methods,
        identities: &Identities,
        lists: AddressLists,
    ) -> Self {
        let (mut code, mut windows) = (CodeAddresses::default(), FxHashMap::default());
        images.identify(|space, image| {
            let (key, window) = module_key(image, identities.get(&(space, image.base)));
            windows.insert(key.clone(), window);
            let module = code.intern_module(key);
            if space == KERNEL_SPACE {
                code.mark_kernel(module);
            }
            module
        });
        let framer = Framer::new(&SessionInfo::default());
        let place_module = code.intern_module(ModuleKey::only(ModuleKind::DotNet));
        let methods =
            MethodFrames { methods, place_module, module: None, known: FxHashMap::default() };
        let (names, known, stacks, frames) = Default::default();
        Self { images, lists, code, names, framer, methods, windows, known, stacks, frames }
    }

    /// The code address of an address that a thread of `pid` executed at raw time `at`.
    pub(super) fn code_address(&mut self, pid: u32, at: u64, address: u64) -> CodeAddressId {
        let space = if self.images.is_kernel(at, address) { KERNEL_SPACE } else { pid };
        let key = (space, self.epoch(space, at), address);
        if let Some(located) = self.known.get(&key) {
            return *located;
        }
        let located = match self.images.find(space, at, address) {
            Some(image) => CodeAddress { module: Some(image.module), offset: address - image.base },
            None => match self.methods.methods.find(space, at, address) {
                Some(offset) => CodeAddress { module: Some(self.methods.place_module), offset },
                None => CodeAddress { module: None, offset: address },
            },
        };
        let id = self.code.intern(located);
        self.known.insert(key, id);
        id
    }

    /// A number that changes whenever images or methods of a space do: both numbers only grow.
    #[inline]
    fn epoch(&self, space: u32, at: u64) -> u32 {
        self.images.epoch(space, at) + self.methods.methods.epoch(space, at)
    }

    /// Whether an address lies in an image that the trace names.
    pub(super) fn is_in_image(&mut self, pid: u32, at: u64, address: u64) -> bool {
        let located = self.code_address(pid, at, address);
        self.code.get(located).module.is_some_and(|module| module != self.methods.place_module)
    }

    /// An address as people read it: its function if it has a name, and its image and offset.
    pub(super) fn labels(
        &mut self,
        pid: u32,
        at: u64,
        address: u64,
        tables: &mut Tables,
    ) -> (String, String) {
        let id = self.code_address(pid, at, address);
        let located = self.code.get(id);
        let in_image = located.module.map_or_else(
            || format!("{address:#x}"),
            |module| format!("{}+{:#x}", file_name(&self.code.module(module).path), located.offset),
        );
        let first = self.frames(id, tables).next();
        let function = first.and_then(|frame| tables.frame(frame).function);
        (
            function.map_or_else(|| in_image.clone(), |name| tables.strings.get(name).to_owned()),
            in_image,
        )
    }

    /// The frames of a code address, innermost first.
    fn frames(
        &mut self,
        id: CodeAddressId,
        tables: &mut Tables,
    ) -> impl Iterator<Item = FrameId> + use<> {
        let located = self.code.get(id);
        let method = (located.module == Some(self.methods.place_module))
            .then(|| self.methods.frame(id, located, tables));
        let others = method.is_none().then(|| {
            // What lies where does not change by time: methods have a module of their own.
            self.framer.frames((id, Ticks(0)), &self.code, &self.names, tables).0
        });
        method.into_iter().chain(others.into_iter().flatten())
    }

    /// Locates the addresses of a stack, so that they are asked names for.
    pub(super) fn locate(&mut self, list: ListId, pid: u32, at: u64) {
        for index in 0..self.lists.get(list).len() {
            let address = self.adjusted(list, index, at);
            address.map(|address| self.code_address(pid, at, address));
        }
    }

    /// An address of a list, where it is looked up. The innermost is where the CPU
    /// stood, and the first of the program's below the kernel's is where it was
    /// left: both exact. The others are return addresses, which may already lie
    /// behind the end of the calling function: they are looked up one byte earlier.
    fn adjusted(&self, list: ListId, index: usize, at: u64) -> Option<u64> {
        let list = self.lists.get(list);
        let address = list[index];
        let is_first = index == 0
            || self.images.is_kernel(at, list[index - 1]) != self.images.is_kernel(at, address);
        (address != 0).then(|| if is_first { address } else { address - 1 })
    }

    /// The stack of these parts in process `pid` at raw time `at`; `None` if it has no frames.
    pub(super) fn stack(
        &mut self,
        parts: StackParts,
        pid: u32,
        at: u64,
        tables: &mut Tables,
    ) -> Option<StackId> {
        // Both only grow, so that their sum tells whether one did.
        let epoch = self.epoch(pid, at) + self.images.epoch(KERNEL_SPACE, at);
        if let Some(stack) = self.stacks.get(&(parts, pid, epoch)) {
            return *stack;
        }
        let stack = self.new_stack(parts, pid, at, tables);
        self.stacks.insert((parts, pid, epoch), stack);
        stack
    }

    #[cold]
    fn new_stack(
        &mut self,
        parts: StackParts,
        pid: u32,
        at: u64,
        tables: &mut Tables,
    ) -> Option<StackId> {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        for list in parts.kernel.into_iter().chain(parts.user) {
            for index in 0..self.lists.get(list).len() {
                let Some(address) = self.adjusted(list, index, at) else { continue };
                let located = self.code_address(pid, at, address);
                frames.extend(self.frames(located, tables));
            }
        }
        let stack = (!frames.is_empty()).then(|| tables.intern_stack(&frames));
        self.frames = frames;
        stack
    }

    /// Adds names. What was made without them is made anew.
    pub(super) fn add_names(&mut self, tables: Vec<SymbolTable>) {
        self.names.add(tables);
        self.framer.renew();
        self.stacks.clear();
    }

    /// Code addresses that have no name yet, by image. Methods have theirs from the trace.
    pub(super) fn unresolved(&self) -> Vec<UnresolvedModule> {
        let unnamed = self.code.unnamed(&self.names).into_iter();
        let unnamed = unnamed.filter(|code| code.module.kind != ModuleKind::DotNet);
        unnamed
            .map(|UnnamedCode { module, offsets, uses }| UnresolvedModule {
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                memory: module.memory,
                kernel: self.code.is_kernel(module),
                offsets,
                uses,
                mapped: Vec::new(),
                windows: self.windows.get(module).cloned(),
            })
            .collect()
    }
}

impl MethodFrames {
    /// The row of a code address in a method.
    fn frame(&mut self, id: CodeAddressId, located: CodeAddress, tables: &mut Tables) -> FrameId {
        if let Some(frame) = self.known.get(&id) {
            return *frame;
        }
        let module = *self.module.get_or_insert_with(|| {
            let ModuleKey { kind, path, build_id, .. } = ModuleKey::only(ModuleKind::DotNet);
            let path = tables.strings.intern(&path);
            tables.modules.push(Module { path, build_id, kind });
            ModuleId(tables.modules.len() as u32 - 1)
        });
        let method = self.methods.at_offset(located.offset);
        tables.frames.push(Frame {
            module: Some(module),
            offset: located.offset,
            function: method.map(|method| tables.strings.intern(&method.name)),
            function_start: method.map_or(0, |method| method.offset),
            function_size: method.map_or(0, |method| method.size),
            range_only: false,
            file: None,
            line: 0,
            inlined: false,
        });
        let frame = FrameId(tables.frames.len() as u32 - 1);
        self.known.insert(id, frame);
        frame
    }
}

/// What follows the last backslash.
fn file_name(path: &str) -> &str {
    path.rsplit('\\').next().unwrap_or(path)
}
