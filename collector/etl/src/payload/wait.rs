//! What a thread that does not run does, and why.

use std::fmt;

/// Why a thread waits (`KWAIT_REASON` of the Windows driver kit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaitReason(pub u8);

/// What a thread does (`KTHREAD_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadState(pub u8);

const WAIT_REASONS: [&str; 43] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
    "WrPhysicalFault",
    "WrIoRing",
    "WrMdlCache",
    "WrRcu",
];

const STATES: [&str; 10] = [
    "Initialized",
    "Ready",
    "Running",
    "Standby",
    "Terminated",
    "Waiting",
    "Transition",
    "DeferredReady",
    "GateWait",
    "WaitingForProcessInSwap",
];

impl WaitReason {
    /// As Windows calls it; `None` for one that came later.
    pub fn name(self) -> Option<&'static str> {
        WAIT_REASONS.get(usize::from(self.0)).copied()
    }

    /// The thread does not wait for anything but a CPU.
    pub fn is_preemption(self) -> bool {
        matches!(
            self.name(),
            Some(
                "WrQuantumEnd"
                    | "WrDispatchInt"
                    | "WrPreempted"
                    | "WrYieldExecution"
                    | "WrDeferredPreempt"
            )
        )
    }
}

impl ThreadState {
    /// It may run, and waits for a CPU.
    pub const READY: Self = Self(1);
    /// It runs. Idle threads stay so while others run.
    pub const RUNNING: Self = Self(2);
    /// It will run next on its CPU.
    pub const STANDBY: Self = Self(3);
    /// It has ended.
    pub const TERMINATED: Self = Self(4);
    /// It waits for something.
    pub const WAITING: Self = Self(5);
    /// It could run, were its kernel stack in memory.
    pub const TRANSITION: Self = Self(6);
    /// It may run, and no CPU has been chosen.
    pub const DEFERRED_READY: Self = Self(7);

    /// As Windows calls it; `None` for one that came later.
    pub fn name(self) -> Option<&'static str> {
        STATES.get(usize::from(self.0)).copied()
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "wait reason {}", self.0),
        }
    }
}

impl fmt::Display for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "state {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_states_are_named_by_number() {
        assert_eq!(WaitReason(15).to_string(), "WrQueue");
        assert_eq!(WaitReason(37).to_string(), "WrAlertByThreadId");
        assert_eq!(WaitReason(200).to_string(), "wait reason 200");
        assert_eq!(ThreadState::WAITING.to_string(), "Waiting");
        assert_eq!(ThreadState(77).to_string(), "state 77");
    }

    #[test]
    fn only_those_who_lost_their_cpu_were_preempted() {
        let preempted: Vec<u8> =
            (0..=255).filter(|reason| WaitReason(*reason).is_preemption()).collect();
        assert_eq!(preempted, [30, 31, 32, 33, 38]);
    }
}
