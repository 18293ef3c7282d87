//! What an audit asks of a backend beyond its tiles: to be opened, and where a window's time goes.

use std::time::Instant;

use cpu::Cpu;
use engine::timed::{Cost, Part, Timed};
use gpu::{Gpu, KernelTime};
use kernels::tiles::Tunable;
use lab::audit::Subject;
use lab::audit::report::{PartTime, WindowProfile};
use model::Checkpoint;

use super::Plan;
use super::windows::{WINDOWS, Windows, of_interest};
use crate::args::DeviceArgs;
use crate::error::Error;

/// A backend that can be audited.
pub(super) trait Audited: Tunable + Sized {
    /// What to know of [`Audited::profiles`], if anything.
    const PROFILE_NOTE: Option<&str>;

    /// Opens the device, with the built-in tiles.
    ///
    /// # Errors
    /// [`Error::Engine`] where there is none.
    fn open(device: &DeviceArgs) -> Result<Self, Error>;

    /// Whether these weights are multiplied by the kernels that tiles are of.
    fn is_tuned(_subject: &Subject) -> bool {
        true
    }

    /// Where the time of windows of 1 and 4 rows goes with the tiles that are in use, as far as
    /// they are among those asked for. A device whose clock cannot be read has nothing to tell.
    ///
    /// # Errors
    /// [`Error::Engine`]; [`Error::Interrupted`].
    fn profiles(
        device: &DeviceArgs,
        checkpoint: &Checkpoint,
        plan: &Plan,
    ) -> Result<Vec<WindowProfile>, Error>;
}

impl Audited for Cpu {
    const PROFILE_NOTE: Option<&str> = None;

    fn open(device: &DeviceArgs) -> Result<Self, Error> {
        Ok(Cpu::new(device.cpu_options()))
    }

    fn profiles(
        device: &DeviceArgs,
        checkpoint: &Checkpoint,
        plan: &Plan,
    ) -> Result<Vec<WindowProfile>, Error> {
        let rows = of_interest(plan);
        let Some(most) = rows.iter().max() else { return Ok(Vec::new()) };
        let timed = Timed::new(device.new_cpu());
        let mut windows = Windows::new(timed, device, checkpoint, plan, *most)?;
        let mut profiles = Vec::new();
        for rows in rows {
            windows.begin()?;
            windows.run(rows)?;
            windows.backend().take_profile();
            let seconds = seconds_each(&mut windows, rows)?;
            let profile = windows.backend().take_profile();
            let part = |(part, cost): &(Part, Cost)| PartTime {
                group: part.group.name().to_owned(),
                name: part.name.to_owned(),
                seconds: cost.time.as_secs_f64() / WINDOWS as f64,
                bytes: (cost.weight_bytes + cost.state_bytes) / WINDOWS as u64,
            };
            let parts = profile.parts().iter().map(part).collect();
            profiles.push(WindowProfile { rows, seconds, parts });
        }
        Ok(profiles)
    }
}

impl Audited for Gpu {
    const PROFILE_NOTE: Option<&str> = Some(
        "where the time goes: kernels are timed one by one, so these windows take longer than others",
    );

    fn open(device: &DeviceArgs) -> Result<Self, Error> {
        device.built_in_gpu()
    }

    /// Streams are read by kernels of their own.
    fn is_tuned(subject: &Subject) -> bool {
        !subject.roles.iter().all(|role| role.contains("hc_"))
    }

    /// By the device's clock, kernel by kernel: each is a pass of its own for that, so such a
    /// window takes longer than others.
    fn profiles(
        device: &DeviceArgs,
        checkpoint: &Checkpoint,
        plan: &Plan,
    ) -> Result<Vec<WindowProfile>, Error> {
        let rows = of_interest(plan);
        let Some(most) = rows.iter().max() else { return Ok(Vec::new()) };
        let mut windows = Windows::new(device.new_gpu()?, device, checkpoint, plan, *most)?;
        let mut profiles = Vec::new();
        for rows in rows {
            windows.begin()?;
            windows.run(rows)?;
            windows.backend().profile(true);
            let seconds = seconds_each(&mut windows, rows)?;
            let times = windows.backend().profile(false);
            if !times.is_empty() {
                let parts = kernel_parts(times.into_iter());
                profiles.push(WindowProfile { rows, seconds, parts });
            }
        }
        Ok(profiles)
    }
}

/// Mean seconds of [`WINDOWS`] windows.
fn seconds_each<B: kernels::Backend>(windows: &mut Windows<B>, rows: usize) -> Result<f64, Error> {
    let started = Instant::now();
    for _ in 0..WINDOWS {
        windows.run(rows)?;
    }
    Ok(started.elapsed().as_secs_f64() / WINDOWS as f64)
}

/// The kernels of [`WINDOWS`] windows as parts of one, those of a name together, the slowest first.
fn kernel_parts(times: impl Iterator<Item = (String, KernelTime)>) -> Vec<PartTime> {
    let mut parts: Vec<PartTime> = Vec::new();
    for (kernel, time) in times {
        let (group, name) = kernel_name(&kernel);
        let seconds = time.seconds / WINDOWS as f64;
        let is_same = |part: &&mut PartTime| part.group == group && part.name == name;
        match parts.iter_mut().find(is_same) {
            Some(part) => part.seconds += seconds,
            // What a kernel moves is not known to it.
            None => parts.push(PartTime { group: group.to_owned(), name, seconds, bytes: 0 }),
        }
    }
    parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    parts
}

/// Group and name of a kernel: its full name without the parameters that it was compiled with.
/// Products that share a call are told by their formats.
fn kernel_name(kernel: &str) -> (&'static str, String) {
    let is_name = |word: &&str| !word.contains('=') && !["few", "many"].contains(word);
    let words: Vec<&str> = kernel.split(' ').filter(is_name).collect();
    let first = words.first().copied().unwrap_or_default();
    let group = match first.split('_').next().unwrap_or_default() {
        "expert" => "experts",
        "matrix" => "dense",
        "experts" => return ("experts", joined(&words[1..])),
        "plan" => "router",
        "combine" | "swiglu" => "experts",
        "hc" => "hc",
        "gdn" => "gdn",
        "qsa" => "qsa",
        "ple" => "ple",
        "mtp" => "mtp",
        "argmax" | "best" | "gather" | "decode" => "head",
        _ => "other",
    };
    if group == "dense" { (group, joined(&words[1..])) } else { (group, joined(&words)) }
}

fn joined(words: &[&str]) -> String {
    words.join(" ").trim_start_matches("+ ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_without_their_parameters() {
        for (kernel, group, name) in [
            (
                "matrix few T=1 S=4 + Q5_K int8 L=8 R=1 K=1 + F32 f32 L=8 R=1 K=1",
                "dense",
                "Q5_K int8 + F32 f32",
            ),
            ("experts few T=8 S=4 + IQ4_NL int8 L=8 R=1 K=1", "experts", "IQ4_NL int8"),
            ("hc_down Q8_0 THREADS=128 STREAMS=4", "hc", "hc_down Q8_0"),
            ("quantise THREADS=256", "other", "quantise"),
            ("", "other", ""),
        ] {
            assert_eq!(kernel_name(kernel), (group, name.to_owned()));
        }
        let time = |seconds| KernelTime { calls: 1, seconds };
        let times = [("a X=1", 8.0), ("b", 40.0), ("a X=2", 16.0)];
        let parts = kernel_parts(times.map(|(name, s)| (name.to_owned(), time(s))).into_iter());
        let told: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.seconds)).collect();
        assert_eq!(told, [("b", 5.0), ("a", 3.0)]);
    }
}
