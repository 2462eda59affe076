//! What every program of OpenGL does: a context, here without a window, and something to draw.

use crate::AnyError;
use glow::HasContext as _;
use khronos_egl as egl;

/// EGL_PLATFORM_SURFACELESS_MESA.
const SURFACELESS: egl::Enum = 0x31dd;
/// How wide and high the picture is.
const PIXELS: i32 = 512;

const VERTICES: &str = "#version 330
void main() {
    gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}";
const FRAGMENTS: &str = "#version 330
out vec4 color;
void main() {
    float sum = 0.0;
    for (int step = 0; step < 32; step++) {
        sum += sin(gl_FragCoord.x * 0.01 + float(step)) * cos(gl_FragCoord.y * 0.01);
    }
    color = vec4(fract(sum), 0.5, 0.5, 1.0);
}";

/// A context that is current, with no window.
pub(crate) struct Window {
    egl: egl::DynamicInstance<egl::EGL1_5>,
    display: egl::Display,
    context: egl::Context,
}

impl Window {
    pub(crate) fn new() -> Result<Self, AnyError> {
        // SAFETY: the library is EGL's.
        let egl = unsafe { egl::DynamicInstance::<egl::EGL1_5>::load_required()? };
        // SAFETY: this platform has no display of its own.
        let surfaceless = unsafe {
            egl.get_platform_display(SURFACELESS, egl::DEFAULT_DISPLAY, &[egl::ATTRIB_NONE])
        };
        let display = match surfaceless {
            Ok(display) => display,
            // SAFETY: the default display is always good.
            Err(_) => unsafe { egl.get_display(egl::DEFAULT_DISPLAY) }.ok_or("no display")?,
        };
        egl.initialize(display)?;
        egl.bind_api(egl::OPENGL_API)?;
        let attributes =
            [egl::SURFACE_TYPE, egl::PBUFFER_BIT, egl::RENDERABLE_TYPE, egl::OPENGL_BIT, egl::NONE];
        let config = egl.choose_first_config(display, &attributes)?.ok_or("no configuration")?;
        let attributes = [
            egl::CONTEXT_MAJOR_VERSION,
            3,
            egl::CONTEXT_MINOR_VERSION,
            3,
            egl::CONTEXT_OPENGL_PROFILE_MASK,
            egl::CONTEXT_OPENGL_CORE_PROFILE_BIT,
            egl::NONE,
        ];
        let context = egl.create_context(display, config, None, &attributes)?;
        egl.make_current(display, None, None, Some(context))?;
        Ok(Self { egl, display, context })
    }

    pub(crate) fn functions(&self) -> glow::Context {
        // SAFETY: the context is current, and the functions are its own.
        unsafe {
            glow::Context::from_loader_function(|name| {
                let function = self.egl.get_proc_address(name);
                function.map_or(std::ptr::null(), |function| function as *const _)
            })
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // The program ends: where these fail, nothing is left to do.
        let _ = self.egl.make_current(self.display, None, None, None);
        let _ = self.egl.destroy_context(self.display, self.context);
        let _ = self.egl.terminate(self.display);
    }
}

/// A picture in memory, and what is drawn into it.
pub(crate) struct Picture {
    pixels: glow::Renderbuffer,
    framebuffer: glow::Framebuffer,
    vertices: glow::VertexArray,
    program: glow::Program,
}

impl Picture {
    pub(crate) fn new(gl: &glow::Context) -> Result<Self, AnyError> {
        // SAFETY: the context is current.
        unsafe {
            let pixels = gl.create_renderbuffer()?;
            gl.bind_renderbuffer(glow::RENDERBUFFER, Some(pixels));
            gl.renderbuffer_storage(glow::RENDERBUFFER, glow::RGBA8, PIXELS, PIXELS);
            let framebuffer = gl.create_framebuffer()?;
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            gl.framebuffer_renderbuffer(
                glow::FRAMEBUFFER,
                glow::COLOR_ATTACHMENT0,
                glow::RENDERBUFFER,
                Some(pixels),
            );
            let vertices = gl.create_vertex_array()?;
            gl.bind_vertex_array(Some(vertices));
            let program = gl.create_program()?;
            for (kind, source) in
                [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, FRAGMENTS)]
            {
                let shader = gl.create_shader(kind)?;
                gl.shader_source(shader, source);
                gl.compile_shader(shader);
                if !gl.get_shader_compile_status(shader) {
                    return Err(gl.get_shader_info_log(shader).into());
                }
                gl.attach_shader(program, shader);
                gl.delete_shader(shader);
            }
            gl.link_program(program);
            if !gl.get_program_link_status(program) {
                return Err(gl.get_program_info_log(program).into());
            }
            gl.use_program(Some(program));
            gl.viewport(0, 0, PIXELS, PIXELS);
            Ok(Self { pixels, framebuffer, vertices, program })
        }
    }

    pub(crate) fn clear(&self, gl: &glow::Context, frame: u64) {
        // SAFETY: the context is current.
        unsafe {
            gl.clear_color(frame as f32 / 100.0, 0.0, 0.0, 1.0);
            gl.clear(glow::COLOR_BUFFER_BIT);
        }
    }

    pub(crate) fn draw(&self, gl: &glow::Context) {
        // SAFETY: the context is current, and all that is drawn with is bound.
        unsafe { gl.draw_arrays(glow::TRIANGLES, 0, 3) };
    }

    pub(crate) fn delete(self, gl: &glow::Context) {
        // SAFETY: the context is current.
        unsafe {
            gl.delete_program(self.program);
            gl.delete_vertex_array(self.vertices);
            gl.delete_framebuffer(self.framebuffer);
            gl.delete_renderbuffer(self.pixels);
        }
    }
}
